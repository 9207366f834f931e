package fetchcache

import "sync"

// Shelf is a bounded set of documents, by name. It drops the least recently used documents.
type Shelf[T any] struct {
	// Most is the maximum number of documents, and Bytes the maximum sum of their Size.
	Most, Bytes int
	Size        func(T) int

	mu    sync.Mutex
	used  int // counts the uses of all documents
	named map[string]*shelved[T]
}

type shelved[T any] struct {
	Document[T]
	used int
}

// Document returns the document of that name, empty if it is new.
func (s *Shelf[T]) Document(name string) *Document[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = map[string]*shelved[T]{}
	}
	d, ok := s.named[name]
	if !ok {
		d = new(shelved[T])
		s.named[name] = d
	}
	s.used++
	d.used = s.used
	for s.exceeds() {
		delete(s.named, s.oldest())
	}
	return &d.Document
}

// exceeds reports whether the shelf has more than it may. The document that is in use stays, even if
// it is too large.
func (s *Shelf[T]) exceeds() bool {
	bytes := 0
	for _, d := range s.named {
		if value, ok := d.held(); ok {
			bytes += s.Size(as[T](value))
		}
	}
	return len(s.named) > s.Most || bytes > s.Bytes && len(s.named) > 1
}

func (s *Shelf[T]) oldest() (name string) {
	used := s.used + 1
	for n, d := range s.named {
		if d.used < used {
			name, used = n, d.used
		}
	}
	return name
}

// held returns the document, whether it counts or not.
func (d *document) held() (value any, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copy.Value, !d.at.IsZero()
}
