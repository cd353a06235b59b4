"""The cheapest change of settings that keeps a service level: searched, priced, and measured over several seeds."""
