"""What other trainers call a setting, and what stands for it here."""
