package bolt

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// logSuffix is added to the name of a Store's file for the name of its log.
const logSuffix = ".wal"

// The log has one record for each group of commits that the file does not contain yet. It begins with a
// block for the header, and two halves follow. Records go to one half while a checkpoint writes those of the
// other half to the file. Then the halves change roles, and new records replace the old ones.
//
//	header  "vergelog", version (4), id (16), CRC-32C of these (4)
//	record  id (16), sequence (8), length of the changes (4), CRC-32C of these and the changes (4), changes
//	change  table, plus removedFlag (1), length of the key, key; unless removed: length of the value, value
//
// Integers are big endian, and lengths inside changes are varints. A record begins on a block, so that a
// write never touches an earlier record. The id is random: a stored value cannot contain a valid record.
const (
	logMagic     = "vergelog"
	logVersion   = 1
	logHeader    = len(logMagic) + 4 + 16 + 4
	recordHeader = 16 + 8 + 4 + 4
	removedFlag  = 0x80

	logBlock = 4096
	logHalf  = 8 << 20

	// logStep is the growth of the log in bytes. Writes to allocated blocks do not change the file system's
	// metadata, so they sync faster.
	logStep = 1 << 20

	// checkpointAfter is the size of a half's records from which a checkpoint writes them to the file.
	checkpointAfter = logHalf / 2
)

// logID connects a log with its file. A new log has a new one.
type logID [16]byte

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeHeader(id logID) []byte {
	b := append(make([]byte, 0, logBlock), logMagic...)
	b = binary.BigEndian.AppendUint32(b, logVersion)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:logBlock]
}

func decodeHeader(b []byte) (id logID, err error) {
	if len(b) < logHeader || string(b[:len(logMagic)]) != logMagic {
		return id, errors.New("not a log of Verge")
	}
	b = b[:logHeader]
	rest, sum := b[:logHeader-4], binary.BigEndian.Uint32(b[logHeader-4:])
	if crc32.Checksum(rest, castagnoli) != sum {
		return id, errors.New("its header is damaged")
	}
	if version := binary.BigEndian.Uint32(b[len(logMagic):]); version != logVersion {
		return id, fmt.Errorf("written in version %d, this program reads version %d only; "+
			"use the program that wrote it", version, logVersion)
	}
	copy(id[:], b[len(logMagic)+4:])
	return id, nil
}

// encodeRecord returns a record, padded to whole blocks.
func encodeRecord(id logID, sequence uint64, l *layer) []byte {
	b := append(make([]byte, 0, logBlock), id[:]...)
	b = binary.BigEndian.AppendUint64(b, sequence)
	b = append(b, make([]byte, 8)...)
	for t := range l.tables {
		l.tables[t].Scan(func(key string, value []byte) bool {
			kind := byte(t)
			if value == nil {
				kind |= removedFlag
			}
			b = append(b, kind)
			b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
			if value != nil {
				b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
			}
			return true
		})
	}
	binary.BigEndian.PutUint32(b[24:], uint32(len(b)-recordHeader))
	binary.BigEndian.PutUint32(b[28:], recordSum(b))
	return append(b, make([]byte, blocks(len(b))-len(b))...)
}

func recordSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:28], castagnoli), castagnoli, b[recordHeader:])
}

// blocks returns the size of the whole blocks that contain n bytes.
func blocks(n int) int { return (n + logBlock - 1) / logBlock * logBlock }

// decodeRecord returns the sequence and the changes of the record at the beginning of b, and its size. The
// size is zero if there is no valid record of this log.
func decodeRecord(id logID, b []byte) (sequence uint64, changes []byte, size int) {
	if len(b) < recordHeader || logID(b[:16]) != id {
		return 0, nil, 0
	}
	n := uint64(binary.BigEndian.Uint32(b[24:])) + recordHeader
	if n > uint64(len(b)) || recordSum(b[:n]) != binary.BigEndian.Uint32(b[28:]) {
		return 0, nil, 0
	}
	return binary.BigEndian.Uint64(b[16:]), b[recordHeader:n], blocks(int(n))
}

var errChanges = errors.New("a record has invalid changes")

// decodeChanges adds the changes of a record to l. Values are parts of b.
func decodeChanges(l *layer, b []byte) error {
	text := func() (part []byte, ok bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, false
		}
		part, b = b[size:size+int(n):size+int(n)], b[size+int(n):]
		return part, true
	}
	for len(b) > 0 {
		t, removed := table(b[0]&^removedFlag), b[0]&removedFlag != 0
		b = b[1:]
		key, ok := text()
		if !ok || t >= tables || len(key) == 0 {
			return errChanges
		}
		if removed {
			l.remove(t, key)
			continue
		}
		value, ok := text()
		if !ok {
			return errChanges
		}
		l.put(t, key, value)
	}
	return nil
}

// replay returns the changes of the records after a sequence, and the sequence of the last one. An
// unreadable last record was not acknowledged to any caller, because its write was interrupted. If a valid
// record follows an unreadable one, the log is damaged.
func replay(id logID, file []byte, after uint64) (l *layer, last uint64, err error) {
	found := make(map[uint64][]byte)
	for at := logBlock; at < len(file); {
		sequence, changes, size := decodeRecord(id, file[at:])
		if sequence > after && size > 0 {
			found[sequence] = changes
		}
		at += max(size, logBlock)
	}
	l = &layer{}
	for last = after; len(found) > 0; last++ {
		changes, valid := found[last+1]
		if !valid {
			return nil, 0, fmt.Errorf("it is damaged: record %d is unreadable, and %d later ones are valid",
				last+1, len(found))
		}
		delete(found, last+1)
		if err := decodeChanges(l, changes); err != nil {
			return nil, 0, fmt.Errorf("record %d: %w", last+1, err)
		}
	}
	return l, last, nil
}

// commitLog is the open log of a Store. Only the writer uses it.
type commitLog struct {
	path     string
	disk     Disk
	file     *os.File
	identity os.FileInfo
	id       logID
	last     uint64   // sequence of the last acknowledged record
	half     int      // which of the two halves is written
	used     int64    // bytes of records in it
	ready    [2]int64 // allocated bytes of each half
}

// createLog writes an empty log with a new id under the path. If root runs it, the log gets the owner and the
// group of the file like, so that the server can read it. The server reads its own log, even if the file has
// another owner or group.
func createLog(path string, disk Disk, like os.FileInfo) (l *commitLog, err error) {
	l = &commitLog{path: path, disk: disk}
	if _, err := rand.Read(l.id[:]); err != nil {
		return nil, err
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	f, err := disk.Open(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	err = disk.Append(f, encodeHeader(l.id), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && os.Geteuid() == 0 {
		if err = sameOwner(temporary, like); err != nil {
			err = fmt.Errorf("it cannot have the file's owner: %w; run the command as that user", err)
		}
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, errors.Join(err, remove(temporary))
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return l, l.open()
}

// readLog reads a log completely.
func readLog(path string, disk Disk) (id logID, content []byte, err error) {
	f, err := disk.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return id, nil, err
	}
	defer f.Close()
	content, err = io.ReadAll(io.LimitReader(f, logBlock+2*logHalf))
	if err != nil {
		return id, nil, err
	}
	id, err = decodeHeader(content)
	return id, content, err
}

// open opens the log's file to write. It fails if the file was replaced since the last call.
func (l *commitLog) open() error {
	f, err := l.disk.Open(l.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && l.identity != nil && !os.SameFile(info, l.identity) {
		err = fmt.Errorf("%w: the log %s was replaced by another one", errFinal, l.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_ = l.close() // opening it reports any fault
	l.file, l.identity = f, info
	for half := range l.ready {
		l.ready[half] = max(0, min(info.Size()-logBlock-int64(half)*logHalf, logHalf))
	}
	return nil
}

func (l *commitLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// record returns the next record.
func (l *commitLog) record(changes *layer) []byte { return encodeRecord(l.id, l.last+1, changes) }

// fits reports whether the half has room for a record.
func (l *commitLog) fits(record []byte) bool { return l.used+int64(len(record)) <= logHalf }

// write writes a record and syncs it. If it fails, the next record has the same place and sequence.
func (l *commitLog) write(record []byte) error {
	end := l.used + int64(len(record))
	if ready := l.ready[l.half]; end > ready {
		// A separate write, so that a full disk cannot leave the outcome of the record in doubt.
		grown := min(max(end, ready+logStep), logHalf)
		if err := l.disk.Append(l.file, make([]byte, grown-ready), l.offset()-l.used+ready); err != nil {
			return err
		}
		l.ready[l.half] = grown
	}
	if err := l.disk.Append(l.file, record, l.offset()); err != nil {
		return err
	}
	l.used = end
	l.last++
	return nil
}

// contains reports whether the log may have the record that write returned an error for.
func (l *commitLog) contains(record []byte) bool {
	b := make([]byte, len(record))
	n, err := l.file.ReadAt(b, l.offset())
	if err != nil && !errors.Is(err, io.EOF) {
		return true
	}
	sequence, _, size := decodeRecord(l.id, b[:n])
	return size > 0 && sequence == l.last+1
}

// offset returns the position of the next record.
func (l *commitLog) offset() int64 { return logBlock + int64(l.half)*logHalf + l.used }

// turn continues in the other half. Its records must be in the file.
func (l *commitLog) turn() { l.half, l.used = 1-l.half, 0 }

// check reports whether the log still has all records after a sequence. They were acknowledged.
func (l *commitLog) check(after uint64) error {
	id, content, err := readLog(l.path, l.disk)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: the log is missing: %w", errFinal, err)
	}
	if err != nil {
		return err
	}
	if id != l.id {
		return fmt.Errorf("%w: the log %s was replaced by another one", errFinal, l.path)
	}
	_, last, err := replay(l.id, content, after)
	if err != nil {
		return fmt.Errorf("%w: the log %s: %w", errFinal, l.path, err)
	}
	if last < l.last || last > l.last+1 {
		return fmt.Errorf("%w: the log %s is at record %d, but %d was written and acknowledged: "+
			"it has lost commits or was replaced; look at the disk, "+
			"and if commits are lost rotate the key ring and retire the old key by force",
			errFinal, l.path, last, l.last)
	}
	return nil
}
