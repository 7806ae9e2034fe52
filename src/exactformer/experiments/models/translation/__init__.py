"""Translation in small: subwords, two kinds of translators, training without waits, decoding."""
