"""The MWP-CWP model of Hong and Kim (ISCA 2009)."""
