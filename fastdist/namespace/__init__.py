"""The names that users type: every op as a function, as a Tensor method and as an operator."""
