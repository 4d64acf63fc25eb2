"""ActorQ (Krishnan et al. 2022): a learner in full precision, and actors whose policies are quantized."""
