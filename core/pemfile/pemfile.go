// Package pemfile reads PEM files from users: with byte order marks, with other line ends, encrypted,
// damaged, or with other content than expected. Its errors name the cause. They quote only the types of
// blocks from a file's content.
package pemfile

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Text returns a text file without a byte order mark. encoding/pem would not see the first block behind one.
func Text(file []byte) ([]byte, error) {
	if bytes.HasPrefix(file, []byte("\xff\xfe")) || bytes.HasPrefix(file, []byte("\xfe\xff")) {
		return nil, errors.New("the file is in UTF-16; save it as UTF-8")
	}
	return bytes.TrimPrefix(file, []byte("\ufeff")), nil
}

// Blocks returns all blocks of a file. what names them in the error for a file without any, such as
// CERTIFICATE.
func Blocks(file []byte, what string) (blocks []*pem.Block, err error) {
	if file, err = Text(file); err != nil {
		return nil, err
	}
	begins := bytes.Count(file, []byte("-----BEGIN "))
	for range begins {
		block, rest := pem.Decode(file)
		if block == nil {
			// pem.Decode skips damaged blocks, so it runs out of blocks before it has seen all begin.
			return nil, fmt.Errorf("one of its PEM blocks is damaged; %d can be read", len(blocks))
		}
		blocks, file = append(blocks, block), rest
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("there is no PEM in it; PEM begins with -----BEGIN %s-----", what)
	}
	return blocks, nil
}

// Certificates returns the certificates of a file, which must have nothing else.
func Certificates(file []byte) (all []*x509.Certificate, err error) {
	blocks, err := Blocks(file, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	for n, block := range blocks {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %s; only certificates belong there", n+1, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil && strings.Contains(err.Error(), "unsupported elliptic curve"): // of crypto/x509
			return nil, fmt.Errorf("certificate %d has a key on an unsupported curve, such as Brainpool; "+
				"remove it, or ask its issuer for one on P-256, P-384 or P-521", n+1)
		case err != nil:
			return nil, fmt.Errorf("certificate %d cannot be read: %w", n+1, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// PrivateKey returns the block of the one private key of a file.
func PrivateKey(file []byte) (*pem.Block, error) {
	blocks, err := Blocks(file, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	if err := CheckClear(blocks); err != nil {
		return nil, err
	}
	var found []*pem.Block
	for _, block := range blocks {
		if block.Type != "EC PARAMETERS" { // openssl writes them in front of a key
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("there are %d things in it, and it must hold one private key alone",
			len(found))
	}
	return found[0], nil
}

// CheckClear returns an error if one of the blocks is a private key that is encrypted.
func CheckClear(blocks []*pem.Block) error {
	for _, block := range blocks {
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return errors.New("the key is encrypted: there is no one to type the password when the server " +
				"starts, so decrypt it with `openssl pkey -in FILE -out FILE`, and let no one else read " +
				"the file")
		}
	}
	return nil
}
