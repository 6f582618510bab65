package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxRequest is the maximum length of a request in bytes, line end included. The values of an edit can
// be much longer than the release record that stores them, which is compressed.
const MaxRequest = 16 << 20

// checkLength returns an error if a request is longer than MaxRequest. length excludes the line end.
func checkLength(length int) error {
	if length < MaxRequest {
		return nil
	}
	return fmt.Errorf("the command is %.1f MiB; the limit is %d MiB; pass fewer values, or start an upgrade with them", float64(length)/(1<<20), MaxRequest>>20)
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
	var r Request
	err = json.Unmarshal(line, &r)
	switch {
	case err != nil:
		err = fmt.Errorf("a request must be a JSON object on one line: %w", err)
	case r.Version > Version || r.Version < 0:
		err = fmt.Errorf("the request uses protocol version %d, but the run knows only versions up to %d; use the same version of lockstep as the run", r.Version, Version)
	case r.Name == "" && r.Type == "":
		err = errors.New("the request contains neither a command nor a query")
	default:
		return r, nil
	}
	return Request{}, &RequestError{r, err}
}

// readLine reads a line without its line end. If the line is longer than MaxRequest, it is dropped, but
// length is still correct.
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
