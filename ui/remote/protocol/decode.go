package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxRequest is the maximum length of a request in bytes. The values of an edit can be much longer
// than the release record that stores them, which is compressed.
const MaxRequest = 16 << 20

// checkLength returns an error if a request has MaxRequest bytes or more.
func checkLength(length int) error {
	if length < MaxRequest {
		return nil
	}
	return fmt.Errorf("the command has %.1f MiB; the limit is %d MiB: pass fewer values, or start an upgrade with them", float64(length)/(1<<20), MaxRequest>>20)
}

// RequestError is the error of an invalid line. Later lines can still be read.
type RequestError struct {
	Request Request // the readable part
	error
}

// Decoder reads the requests of a client.
type Decoder struct{ r *bufio.Reader }

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{bufio.NewReader(r)} }

// Next returns the next request. The error is a RequestError, or that of the reader. Next never
// buffers more than MaxRequest bytes.
func (d *Decoder) Next() (Request, error) {
	line, length, err := d.readLine()
	if err != nil && (length == 0 || !errors.Is(err, io.EOF)) {
		return Request{}, err
	}
	if err := checkLength(length); err != nil {
		return Request{}, &RequestError{error: err}
	}
	var o Request
	err = json.Unmarshal(line, &o)
	switch {
	case err != nil:
		err = fmt.Errorf("a message must be a JSON object on one line: %w", err)
	case o.Version > Version || o.Version < 0:
		err = fmt.Errorf("the message uses protocol version %d, but the run knows only versions up to %d: use the same lockstep as the run", o.Version, Version)
	case o.Name == "" && o.Type == "":
		err = errors.New("the message contains neither a command nor a query")
	default:
		return o, nil
	}
	return Request{}, &RequestError{o, err}
}

// readLine reads a line without its line end. It drops a line that is too long; length is still right.
func (d *Decoder) readLine() (line []byte, length int, err error) {
	for {
		part, err := d.r.ReadSlice('\n')
		length += len(part)
		if length <= MaxRequest {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte{'\n'}), length - min(1, bytes.Count(part, []byte{'\n'})), err
		}
	}
}
