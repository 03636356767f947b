"""Compatibility of the js lane: npm packages, the WinterTC minimum common API and web platform tests."""
