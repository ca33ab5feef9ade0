"""The platform database: what is wanted, what ran, what was found. Nothing about progress: that is the ledger's."""
