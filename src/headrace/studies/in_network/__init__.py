"""In-network experience sampling (Furukawa and Matsutani): sampling in the server between actors and learner."""
