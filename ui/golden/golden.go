// Package golden compares what tests draw and print with files. Only tests import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Update is set if the files are to be written instead of compared.
var Update = flag.Bool("update", false, "write the files to compare with")

// Trim returns text without blanks at the ends of lines; a selected line ends with some.
func Trim(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// Compare compares text with testdata/NAME.golden, in which ␛ stands for escape characters.
func Compare(t *testing.T, name, got string) {
	t.Helper()
	CompareFile(t, filepath.Join("testdata", name+".golden"), Trim(strings.ReplaceAll(got, "\x1b", "␛"))+"\n")
}

// CompareFile compares text with a file.
func CompareFile(t *testing.T, file, got string) {
	t.Helper()
	if want := saved(t, file, got); got != want {
		t.Errorf("%s has changed; if that is right, run the test with -update:\n--- want\n%s\n--- got\n%s", file, want, got)
	}
}

// CompareSection compares text with what stands in a file between the comments <!-- name --> and <!-- /name -->.
func CompareSection(t *testing.T, file, name, got string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section between %q and %q", file, begin, end)
	}
	got = before + begin + got + end + after
	if got != saved(t, file, got) {
		t.Errorf("the section %q of %s has changed; if that is right, run the test with -update", name, file)
	}
}

// saved returns the content of a file. With -update it writes got first.
func saved(t *testing.T, file, got string) string {
	t.Helper()
	if *Update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
