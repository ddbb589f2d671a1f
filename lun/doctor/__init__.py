"""`python main.py --doctor`: is everything here that training needs, told so that it can be pasted anywhere."""
