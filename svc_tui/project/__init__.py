"""Creating projects and checking build prerequisites."""
