"""Hyperparameter tuning: studies by Optuna whose trials are training runs."""
