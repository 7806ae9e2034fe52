"""What readers think: votes, reactions, saves, collections, reviews, comments, moderation."""
