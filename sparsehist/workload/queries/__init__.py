"""What is asked: linear queries A·x on the counts x of a series, by the form of A."""
