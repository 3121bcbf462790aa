"""What a walk of the API must know that the description cannot say."""
