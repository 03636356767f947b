// This file permits functions without a body, which the host provides.
