"""What an open domain costs: the probability that a unit's own keys ever show, over all releases of a path jointly.

Core: numpy and scipy only, no I/O. Public numbers only; nothing is drawn here.
"""
