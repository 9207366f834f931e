package report

import (
	"encoding/base64"
	"fmt"
	"time"
)

// tarBlock is the size of a header, and the unit of a file's size, in an archive.
const tarBlock = 512

// Archive returns the files of a report as a tar archive (ustar): both forms, their signatures and the public
// key. archive/tar would cost a guest more.
func (s Signed) Archive(at time.Time) []byte {
	document, _ := base64.StdEncoding.DecodeString(s.DocumentSignature) // Sign has encoded both
	page, _ := base64.StdEncoding.DecodeString(s.PageSignature)
	var all []byte
	for _, f := range []struct{ name, content string }{
		{"report.json", s.Document}, {"report.json.sig", string(document)},
		{"report.html", s.Page}, {"report.html.sig", string(page)},
		{"report.pub", s.PublicKey},
	} {
		var head [tarBlock]byte
		put := func(at int, text string) { copy(head[at:], text) }
		put(0, f.name)
		put(100, "0000644\x000000000\x000000000")
		put(124, fmt.Sprintf("%011o", len(f.content)))
		put(136, fmt.Sprintf("%011o", at.Unix()))
		put(148, "        0") // the checksum is computed with spaces here; 0 is a regular file
		put(257, "ustar\x0000")
		sum := 0
		for _, b := range head {
			sum += int(b)
		}
		put(148, fmt.Sprintf("%06o\x00", sum))
		all = append(all, head[:]...)
		all = append(all, f.content...)
		all = append(all, make([]byte, (tarBlock-len(f.content)%tarBlock)%tarBlock)...)
	}
	return append(all, make([]byte, 2*tarBlock)...)
}
