package charts

import (
	"fmt"
	"math"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxResult is how much one call of a template function may make, in bytes. A
// single piece of memory of many GiB ends a Go program, or the machine, before
// anybody can look.
const maxResult = 256 << 20

// sized are the functions of templates whose result is as large as an argument
// says. They are sprig's, and refuse what is too large.
func (g *Guard) sized() template.FuncMap {
	of := sprig.TxtFuncMap()
	check := func(name string, bytes float64) error {
		if err := g.over(); err != nil {
			return err
		}
		if bytes > maxResult {
			return fmt.Errorf("%s would make %s, more than the %s that a function may make", name, quantity(bytes), quantity(maxResult))
		}
		return nil
	}
	funcs := template.FuncMap{}
	for _, name := range []string{"randAlphaNum", "randAlpha", "randAscii", "randNumeric"} {
		if f, ok := of[name].(func(int) string); ok {
			funcs[name] = func(count int) (string, error) {
				if err := check(name, 4*float64(count)); err != nil { // it makes runes
					return "", err
				}
				return f(count), nil
			}
		}
	}
	if f, ok := of["randBytes"].(func(int) (string, error)); ok {
		funcs["randBytes"] = func(count int) (string, error) {
			if err := check("randBytes", float64(count)); err != nil {
				return "", err
			}
			return f(count)
		}
	}
	if f, ok := of["repeat"].(func(int, string) string); ok {
		funcs["repeat"] = func(count int, s string) (string, error) {
			if err := check("repeat", float64(count)*float64(len(s))); err != nil {
				return "", err
			}
			return f(count, s), nil
		}
	}
	for _, name := range []string{"indent", "nindent"} {
		if f, ok := of[name].(func(int, string) string); ok {
			funcs[name] = func(spaces int, s string) (string, error) {
				if err := check(name, float64(spaces)*float64(1+strings.Count(s, "\n"))); err != nil {
					return "", err
				}
				return f(spaces, s), nil
			}
		}
	}
	if f, ok := of["until"].(func(int) []int); ok {
		funcs["until"] = func(count int) ([]int, error) {
			if err := check("until", 8*math.Abs(float64(count))); err != nil {
				return nil, err
			}
			return f(count), nil
		}
	}
	if f, ok := of["untilStep"].(func(int, int, int) []int); ok {
		funcs["untilStep"] = func(start, stop, step int) ([]int, error) {
			if err := check("untilStep", 8*steps(start, stop, step)); err != nil {
				return nil, err
			}
			return f(start, stop, step), nil
		}
	}
	if f, ok := of["seq"].(func(...int) string); ok {
		funcs["seq"] = func(params ...int) (string, error) {
			if err := check("seq", 16*seqSteps(params)); err != nil {
				return "", err
			}
			return f(params...), nil
		}
	}
	return funcs
}

// steps is how many numbers untilStep makes.
func steps(start, stop, step int) float64 {
	n := (float64(stop) - float64(start)) / float64(step)
	if step == 0 || n < 0 {
		return 0
	}
	return n
}

// seqSteps is how many numbers seq makes at most.
func seqSteps(params []int) float64 {
	switch len(params) {
	case 1:
		return math.Abs(float64(params[0])) + 2
	case 2:
		return math.Abs(float64(params[1])-float64(params[0])) + 1
	case 3:
		return math.Abs(steps(params[0], params[2], params[1])) + 1
	}
	return 0
}
