package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"lockstep/engine/text"
	"lockstep/kube/documents"
)

// encoding is a way in which a program prints a value.
type encoding struct {
	name   string
	encode func(string) string
}

// encodings are the forms of a value that are hidden, besides the value itself.
var encodings = []encoding{
	{"base64", ofBytes(base64.StdEncoding.EncodeToString)},
	{"base64 without padding", ofBytes(base64.RawStdEncoding.EncodeToString)},
	{"base64 for URLs", ofBytes(base64.URLEncoding.EncodeToString)},
	{"base64 with a newline", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s + "\n")) }},
	{"bytes in Go", bytesInGo},
	{"query in Go", url.QueryEscape},
	{"path in Go", url.PathEscape},
	{"SQL and YAML", doubled("'")},
}

// rareEncodings are further forms that are hidden of a value of up to maxEncoded bytes.
var rareEncodings = slices.Concat([]encoding{
	{"hexadecimal", ofBytes(hex.EncodeToString)},
	{"hexadecimal in upper case", func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) }},
	{"hexadecimal with spaces", bytesAs("%02x", " ")},
	{"hexadecimal with colons", bytesAs("%02x", ":")},
	{"hexadecimal with spaces in upper case", bytesAs("%02X", " ")},
	{"hexadecimal with colons in upper case", bytesAs("%02X", ":")},
	{"hexadecimal in pairs of bytes", inPairs},
	{"decimal bytes in Go", bytesAs("%d", " ")},
	{"decimal bytes in JSON", bytesAs("%d", ",")},
	{"decimal bytes in Python and Rust", bytesAs("%d", ", ")},
	{"bytes in Python", bytesInPython},
	{"encodeURIComponent", percent("-_.!~*'()")},
	{"encodeURI", percent("-_.!~*'();/?:@&=+$,#")},
	{"URL in Python", percent("-_.~/")},
	{"URL as in RFC 3986", percent("-_.~")},
	{"form in Java and JavaScript", func(s string) string { return strings.ReplaceAll(percent("-_.* ")(s), " ", "+") }},
	{"CSV", doubled(`"`)},
	{"quoted by bash -x", strings.NewReplacer(`'`, `'\''`).Replace},
	{"quoted by Python's shlex and dash -x", strings.NewReplacer(`'`, `'"'"'`).Replace},
	{"printf %q", backslashed("-_./:=@%+,")},
	{"in double quotes of a shell", strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace},
	{"in single quotes", strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace},
	{"text in XML", strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace},
	{"HTML in Go", html.EscapeString},
	{"HTML templates in Go", strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;").Replace},
	{"decimal HTML entities", numeric("&#%d;")},
	{"hexadecimal HTML entities", numeric("&#x%x;")},
	{"hexadecimal HTML entities in upper case", numeric("&#x%X;")},
}, quotesInHTML())

// quotesInHTML are the ways to escape quotes in HTML and XML.
func quotesInHTML() (all []encoding) {
	for _, double := range []string{`"`, "&quot;"} {
		for _, single := range []string{"'", "&#39;", "&#039;", "&#x27;", "&apos;"} {
			replace := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, double, "'", single).Replace
			all = append(all, encoding{"HTML with " + double + " and " + single, replace})
		}
	}
	return all
}

// escapes escape a string as in a literal. A literal is often quoted again.
var escapes = []encoding{
	{"Go", func(s string) string { return unquoted(strconv.Quote(s)) }},
	{"JSON", func(s string) string {
		text, _ := json.Marshal(s) // cannot fail
		return unquoted(string(text))
	}},
	{"JSON without HTML escapes", func(s string) string { return unquoted(documents.JSON(s)) }},
	{"JSON in ASCII", func(s string) string { return inASCII(unquoted(documents.JSON(s))) }},
	{"JSON in PHP", func(s string) string { return strings.ReplaceAll(inASCII(unquoted(documents.JSON(s))), "/", `\/`) }},
}

const (
	// maxEncoded limits the length of the values of which rareEncodings and literals in literals are hidden.
	maxEncoded = 16 << 10
	// maxRareLines limits the number of lines of a value of which rareEncodings of each line are hidden. A chain of
	// certificates has more.
	maxRareLines = 100
)

// forms returns all forms in which a value may appear: encoded, escaped once or twice, and each of
// these on one line.
func forms(v string, rare bool) []string {
	all := append(whole(v, rare), inBase64(v)...)
	for _, form := range all { // on one line, without control sequences
		if strings.ContainsFunc(form, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			all = append(all, strings.Join(strings.Fields(text.Line(form)), " "))
		}
	}
	return slices.DeleteFunc(all, func(form string) bool { return len(form) < minLength || strings.Contains(form, cut) })
}

// whole returns a value and all of its encodings, those in rareEncodings only if rare is set.
func whole(v string, rare bool) []string {
	all := []string{v}
	for _, e := range encodings {
		all = append(all, e.encode(v))
	}
	if rare && len(v) < maxEncoded {
		for _, e := range rareEncodings {
			all = append(all, e.encode(v))
		}
		all = append(all, inLines(v)...)
	}
	for _, form := range all {
		if strings.Contains(form, "%") {
			all = append(all, lowerHex(form))
		}
	}
	for _, e := range escapes {
		once := e.encode(v)
		all = append(all, once)
		for _, again := range escapes {
			if len(v) < maxEncoded {
				all = append(all, again.encode(once))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unquoted returns a quoted string without its quotes.
func unquoted(text string) string { return text[1 : len(text)-1] }

func ofBytes(encode func([]byte) string) func(string) string {
	return func(s string) string { return encode([]byte(s)) }
}

// doubled returns an encoding that doubles a quote.
func doubled(quote string) func(string) string {
	return strings.NewReplacer(quote, quote+quote).Replace
}

// inASCII escapes the other characters of a JSON string as UTF-16.
func inASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// bytesInGo returns the bytes of a value as Go's %#v prints them, without the type.
func bytesInGo(v string) string {
	text := fmt.Sprintf("%#v", []byte(v))
	return text[len("[]byte{") : len(text)-len("}")]
}

// bytesAs returns an encoding that formats each byte.
func bytesAs(format, between string) func(string) string {
	return func(s string) string {
		all := make([]string, len(s))
		for i := range len(s) {
			all[i] = fmt.Sprintf(format, s[i])
		}
		return strings.Join(all, between)
	}
}

// inPairs returns the bytes of a value as xxd prints them.
func inPairs(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && i%2 == 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%02x", s[i])
	}
	return b.String()
}

// inLines returns the lines of a value in base64, as base64 and openssl wrap them.
func inLines(v string) (all []string) {
	digits := base64.StdEncoding.EncodeToString([]byte(v))
	for _, width := range []int{64, 76} {
		if len(digits) > width {
			for line := range slices.Chunk([]byte(digits), width) {
				all = append(all, string(line))
			}
		}
	}
	return all
}

// bytesInPython returns a value as in Python's bytes, without the quotes.
func bytesInPython(s string) string {
	var b strings.Builder
	for _, c := range []byte(strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)) {
		if c >= ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// isAlphanumeric reports whether an ASCII character needs no escape anywhere.
func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// percent returns an encoding for URLs that keeps letters, digits and some other characters.
func percent(kept string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			if isAlphanumeric(rune(c)) || strings.IndexByte(kept, c) >= 0 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		return b.String()
	}
}

// numeric returns an encoding that writes each character that is no letter or digit as an entity.
func numeric(format string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if isAlphanumeric(r) {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, format, r)
			}
		}
		return b.String()
	}
}

// backslashed returns an encoding that writes a backslash before all other ASCII characters.
func backslashed(kept string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if r > ' ' && r < 0x7f && !isAlphanumeric(r) && !strings.ContainsRune(kept, r) || r == ' ' {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		return b.String()
	}
}

// escapedByte matches an escaped byte in a URL.
var escapedByte = regexp.MustCompile(`%[0-9A-F]{2}`)

// lowerHex returns an escaped URL with its escapes in lower case.
func lowerHex(escaped string) string {
	return escapedByte.ReplaceAllStringFunc(escaped, strings.ToLower)
}

// inBase64 returns the base64 digits of a value inside a longer text, for each of the three possible
// offsets, without the digits that depend on the text around it.
func inBase64(v string) (all []string) {
	for before := range 3 {
		padded := strings.Repeat("x", before) + v
		end := len(padded) * 8 / 6 // later digits depend on the text after it
		from := (before*8 + 5) / 6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, e.EncodeToString([]byte(padded))[from:end])
		}
	}
	return all
}
