"""The pipeline performance model of Lemeire et al."""
