"""The service: every Project that was deployed to a bucket, served, and changed by deploys."""
