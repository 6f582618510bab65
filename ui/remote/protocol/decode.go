package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxOrder is the limit for the line of an order, in bytes. Values of an edit can be much
// longer than the release that stores them, which is compressed.
const MaxOrder = 16 << 20

// TooLongError is about an order of MaxOrder bytes or more.
type TooLongError struct{ Length int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the command has %.1f MiB; the limit is %d MiB: pass fewer values, or start an upgrade with them", float64(e.Length)/(1<<20), MaxOrder>>20)
}

// OrderError says why a line is not a valid order. Later lines can still be read.
type OrderError struct {
	Order Order // as far as it was readable
	Err   error
}

func (e *OrderError) Error() string { return e.Err.Error() }
func (e *OrderError) Unwrap() error { return e.Err }

// Decoder reads the orders of one client.
type Decoder struct{ r *bufio.Reader }

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{bufio.NewReader(r)} }

// Next returns the next order. The error is an OrderError, or that of the reader. It never
// buffers more than MaxOrder bytes.
func (d *Decoder) Next() (Order, error) {
	line, length, err := d.line()
	if err != nil && (length == 0 || !errors.Is(err, io.EOF)) {
		return Order{}, err
	}
	if length >= MaxOrder {
		return Order{}, &OrderError{Err: &TooLongError{length}}
	}
	var o Order
	if err := json.Unmarshal(line, &o); err != nil {
		return Order{}, &OrderError{o, fmt.Errorf("a message must be a JSON object on one line: %w", err)}
	}
	switch {
	case o.Version > Version || o.Version < 0:
		err = fmt.Errorf("the message uses protocol version %d, but the run knows only versions up to %d: use the same lockstep as the run", o.Version, Version)
	case o.Name == "" && o.Ask == "":
		err = errors.New("the message contains neither a command nor a query")
	default:
		return o, nil
	}
	return Order{}, &OrderError{o, err}
}

// line reads a line without its end. A line that is too long is dropped; length is right.
func (d *Decoder) line() (line []byte, length int, err error) {
	for {
		part, err := d.r.ReadSlice('\n')
		length += len(part)
		if length <= MaxOrder {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte{'\n'}), length - min(1, bytes.Count(part, []byte{'\n'})), err
		}
	}
}
