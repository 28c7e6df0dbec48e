"""Real bags: data that ships inside installable packages, and token states of a pretrained sentence encoder. Nothing is fetched at run time."""
