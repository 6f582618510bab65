package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxOrder is how many bytes the line of an order may have. An edit's values
// may be a hundred times as long as the release that stores them, which is compressed.
const MaxOrder = 16 << 20

// TooLongError is about an order that has MaxOrder bytes or more.
type TooLongError struct{ Length int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the command takes %.1f MiB, and a run takes no more than %d MiB: give fewer values, or start the upgrade with them", float64(e.Length)/(1<<20), MaxOrder>>20)
}

// OrderError says why a line is no order that can be carried out; the lines after it
// can be read.
type OrderError struct {
	Order Order // as far as it could be read
	Err   error
}

func (e *OrderError) Error() string { return e.Err.Error() }
func (e *OrderError) Unwrap() error { return e.Err }

// Decoder reads the orders of one client.
type Decoder struct{ r *bufio.Reader }

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{bufio.NewReader(r)} }

// Next returns the next order. The error is an OrderError where the line is none, and
// else that of the reader. Of a line that is too long no more than MaxOrder is kept.
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
		return Order{}, &OrderError{o, fmt.Errorf("read an order, a JSON object a line: %w", err)}
	}
	switch {
	case o.Version > Version || o.Version < 0:
		err = fmt.Errorf("the order is of version %d of the protocol, and the run knows up to %d: use the lockstep that runs it", o.Version, Version)
	case o.Name == "" && o.Ask == "":
		err = errors.New("the order has neither a command nor a question")
	default:
		return o, nil
	}
	return Order{}, &OrderError{o, err}
}

// line reads a line without its end, and says how long it is where that is too long.
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
