package main

import (
	"strings"
	"testing"
)

// TestResults: only the output of tests that failed or did not finish is printed, and its end again after the slowest tests.
func TestResults(t *testing.T) {
	var out strings.Builder
	r := &results{out: &out, running: map[string][]*test{}}
	err := r.read(strings.NewReader(`{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"fine\n"}
{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":2.5}
{"Action":"output","Package":"a","Test":"TestBad","Output":"    a log\n      of\n\n      seven\n      and\n      more\n      lines\n"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"    bad_test.go:1: wrong\n--- FAIL: TestBad (1.00s)\n"}
{"Action":"fail","Package":"a","Test":"TestBad","Elapsed":1}
{"Action":"output","Package":"a","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t3s\n"}
{"Action":"fail","Package":"a","Elapsed":3}
{"ImportPath":"b [b.test]","Action":"build-output","Output":"b.go:1: undefined\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb [build failed]\n"}
{"Action":"fail","Package":"b","Elapsed":0,"FailedBuild":"b [b.test]"}
{"Action":"pass","Package":"c","Test":"TestOld","Elapsed":9}
{"Action":"output","Package":"c","Output":"PASS\n"}
{"Action":"output","Package":"c","Output":"ok  \tc\t(cached)\n"}
{"Action":"pass","Package":"c","Elapsed":9}
no JSON
`))
	r.print(2)
	want := `    a log
      of

      seven
      and
      more
      lines
    bad_test.go:1: wrong
--- FAIL: TestBad (1.00s)
panic: test timed out
FAIL	a	3s
b.go:1: undefined
FAIL	b [build failed]
ok  	c	(cached)
no JSON

slowest tests
    2.5 s  a TestGood
    1.0 s  a TestBad

failed
  a TestBad
      of
      seven
      and
      more
      lines
      bad_test.go:1: wrong
  a TestHangs
      panic: test timed out
  b
      FAIL	b [build failed]
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}
