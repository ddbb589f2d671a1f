"""`python main.py --doctor`: is everything here that training needs, printed so that it can be pasted anywhere."""
