package method

// Circuit is a circuit of zero-knowledge proofs, with its source: an address or a file.
type Circuit struct {
	Hash string // its name (host.Circuit)
	URL  string
	File string // a path on the machine of the host
}

// Source returns the address or the file of the circuit.
func (c Circuit) Source() string {
	if c.URL != "" {
		return c.URL
	}
	return c.File
}

// Circuits returns the circuits of the proofs that the method accepts.
func (e Entry) Circuits() []Circuit {
	if e.Of.Circuits == nil {
		return nil
	}
	return e.Of.Circuits(e.Config)
}

// MaxCall returns the maximum number of bytes of a response to any of the methods. A response with a proof is
// larger than others.
func (c Catalog) MaxCall() int {
	for _, e := range c {
		if len(e.Circuits()) > 0 {
			return maxProofCall
		}
	}
	return MaxCall
}
