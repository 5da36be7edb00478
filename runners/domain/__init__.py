"""Pure rules about clients and runners."""
