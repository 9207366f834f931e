package longfellow

// Reason is why a proof is rejected. It is for logs: a user can do nothing with it.
type Reason string

// The reasons.
const (
	// Unsupported is a statement that the circuits cannot express.
	Unsupported Reason = "unsupported statement"
	// Malformed is a proof that does not have the form that the circuit requires.
	Malformed Reason = "malformed proof"
	// Commitment is an opened column that the prover has not committed to.
	Commitment Reason = "a column is not in the commitment"
	// LowDegree is a row that is not in the code.
	LowDegree Reason = "a row is not in the code"
	// LinearRows is a combination for the linear equations that is not that of the rows.
	LinearRows Reason = "a linear combination does not match the rows"
	// LinearSum is a linear equation that does not hold: the statement is false, or not the prover's.
	LinearSum Reason = "a linear equation does not hold"
	// Quadratic is a quadratic equation that does not hold.
	Quadratic Reason = "a quadratic equation does not hold"
)

// Error implements error.
func (r Reason) Error() string { return "longfellow: " + string(r) }
