"""Deploys on a service: policy, health check, activation, rollback and secrets."""
