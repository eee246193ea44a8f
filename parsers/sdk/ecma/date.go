// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"math"
	"strconv"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
)

// maxTime is the furthest that a time may be from 1970, in milliseconds.
const maxTime = 8.64e15

// Date is new Date(v).toISOString() of a decoded value where local time is UTC. It takes all that V8 takes: the
// format of ECMAScript and, of texts that are not in it, whatever looks like a date. ok is false where V8 throws. A
// missing value, undefined, is not a date; the caller has to distinguish it from null, which is 1970.
func Date(v any) (iso string, ok bool) {
	var ms float64
	switch v := v.(type) {
	case nil:
	case bool:
		if v {
			ms = 1
		}
	case float64:
		ms = math.Trunc(v)
	case string:
		ms = parseDate(v)
	default:
		ms = parseDate(finding.ToString(v))
	}
	if !(math.Abs(ms) <= maxTime) { // NaN is not
		return "", false
	}
	return formatDate(int64(ms)), true
}

// formatDate writes four digits of a year, or six and a sign where four do not do.
func formatDate(ms int64) string {
	t := time.UnixMilli(ms).UTC()
	buf := make([]byte, 0, len("+275760-09-13T00:00:00.000Z"))
	year := t.Year()
	if year < 0 || year > 9999 {
		sign := byte('+')
		if year < 0 {
			sign, year = '-', -year
		}
		buf = append(buf, sign)
		buf = append(buf, strconv.Itoa(1_000_000 + year)[1:]...)
		return string(t.AppendFormat(buf, "-01-02T15:04:05.000Z"))
	}
	return string(t.AppendFormat(buf, finding.TimeFormat))
}

// parseDate is Date.parse(s): milliseconds since 1970, NaN where s is not a date.
func parseDate(s string) float64 {
	p := dateParser{in: dateTokens{s: s}, zone: newZone()}
	p.in.scan()
	if !p.parse() {
		return math.NaN()
	}
	year, month, day, ok := p.day.date()
	if !ok || year > 1_000_000 { // far beyond maxTime
		return math.NaN()
	}
	clock, ok := p.clock.milliseconds()
	if !ok {
		return math.NaN()
	}
	offset, ok := p.zone.milliseconds()
	if !ok {
		return math.NaN()
	}
	midnight := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() * 1000
	return float64(midnight + clock - offset)
}

// dateParser follows V8's: the format of ECMAScript as far as it goes, then, from the first token that does not fit,
// rules that take what people write.
type dateParser struct {
	in    dateTokens
	day   dayParts
	clock clockParts
	zone  zoneParts
}

func (p *dateParser) parse() bool {
	left, ok := p.iso()
	if !ok {
		return false
	}
	hasNumber := p.day.n > 0
	for t := left; t.kind != tokenEnd; t = p.in.next() {
		switch {
		case t.kind == tokenNumber:
			hasNumber = true
			if !p.number(t) {
				return false
			}
		case t.kind == tokenWord:
			if !p.word(t, hasNumber) {
				return false
			}
		case t.isSign() && (p.zone.isUTC() || p.clock.n > 0):
			hasNumber = true
			if !p.offset(t) {
				return false
			}
		case (t.isSign() || t.is(')')) && hasNumber:
			return false
		}
	}
	return true
}

// number takes a number by what follows it and by what is still missing.
func (p *dateParser) number(t dateToken) bool {
	switch {
	case p.in.skip(':'):
		if p.in.skip(':') { // 10:: is 10:00
			return p.clock.n == 0 && p.clock.add(t.n) && p.clock.add(0)
		}
		if !p.clock.add(t.n) {
			return false
		}
		p.in.skip('.')
		return true
	case p.in.skip('.') && p.clock.expects(t.n):
		p.clock.add(t.n)
		if p.in.peek.kind != tokenNumber {
			return false
		}
		p.clock.finish(thousandths(p.in.next()))
		return true
	case p.zone.expectsMinute(t.n):
		p.zone.minute = t.n
		return true
	case p.clock.expects(t.n):
		p.clock.finish(t.n)
		after := p.in.peek
		return after.kind == tokenEnd || after.kind == tokenSpace || after.isZ() || after.isSign()
	}
	if !p.day.add(t.n) {
		return false
	}
	p.in.skip('-')
	return true
}

// word takes the name of a month, of a zone, am or pm. Others may stand before the first number only, and not right
// before it.
func (p *dateParser) word(t dateToken, hasNumber bool) bool {
	switch {
	case t.word == wordHalf && p.clock.n > 0:
		p.clock.half, p.clock.hasHalf = t.n, true
	case t.word == wordMonth:
		p.day.month = t.n
		p.in.skip('-')
	case t.word == wordZone && hasNumber:
		p.zone.set(t.n)
	default:
		return !hasNumber && p.in.peek.kind != tokenNumber
	}
	return true
}

// offset takes what follows a sign: +1, +01, +0100, +01:00.
func (p *dateParser) offset(sign dateToken) bool {
	p.zone.sign = sign.sign()
	n, length := 0, 0
	if p.in.peek.kind == tokenNumber {
		t := p.in.next()
		n, length = t.n, t.length
	}
	switch {
	case p.in.peek.is(':'):
		p.zone.hour, p.zone.minute = n, unset
	case length == 1 || length == 2:
		p.zone.hour, p.zone.minute = n, 0
	case length == 3 || length == 4:
		p.zone.hour, p.zone.minute = n/100, n%100
	default:
		return false
	}
	return true
}

// iso reads ±YYYYYY-MM-DDTHH:mm:ss.sssZ and its shorter forms. It returns the first token that does not fit, for the
// other rules, or the end. A text that has come to the T and breaks after it is not a date at all: ok is false.
func (p *dateParser) iso() (left dateToken, ok bool) {
	switch {
	case p.in.peek.isSign():
		sign := p.in.next()
		if !p.in.peek.hasDigits(6) {
			return sign, true
		}
		year := p.in.next().n
		if sign.sign() < 0 && year == 0 {
			return sign, true
		}
		p.day.add(sign.sign() * year)
	case p.in.peek.hasDigits(4):
		p.day.add(p.in.next().n)
	default:
		return p.in.next(), true
	}
	for _, most := range []int{12, 31} {
		if !p.in.skip('-') {
			break
		}
		if t := p.in.peek; !t.hasDigits(2) || t.n < 1 || t.n > most {
			return p.in.next(), true
		}
		p.day.add(p.in.next().n)
	}
	if p.in.peek.kind == tokenWord && p.in.peek.word == wordT {
		p.in.next()
		if !p.isoClock() || !p.isoZone() || p.in.peek.kind != tokenEnd {
			return dateToken{}, false
		}
	} else if p.in.peek.kind != tokenEnd {
		return p.in.next(), true
	}
	p.day.iso = true
	return dateToken{kind: tokenEnd}, true
}

// isoClock reads HH:mm, :ss and .sss if they are there.
func (p *dateParser) isoClock() bool {
	hour, ok := p.isoPart(24)
	if !ok || !p.in.skip(':') {
		return false
	}
	most := 59
	if hour == 24 { // the end of the day, and nothing later
		most = 0
	}
	if _, ok := p.isoPart(most); !ok || !p.in.skip(':') {
		return ok
	}
	if _, ok := p.isoPart(most); !ok || !p.in.skip('.') {
		return ok
	}
	t := p.in.next()
	p.clock.add(thousandths(t))
	return t.kind == tokenNumber && (hour < 24 || t.n == 0)
}

// isoPart reads two digits up to a number.
func (p *dateParser) isoPart(most int) (n int, ok bool) {
	t := p.in.next()
	p.clock.add(t.n)
	return t.n, t.hasDigits(2) && t.n <= most
}

func (p *dateParser) isoZone() bool {
	switch {
	case p.in.peek.isZ():
		p.in.next()
		p.zone.set(0)
		return true
	case !p.in.peek.isSign():
		return true
	}
	p.zone.sign = p.in.next().sign()
	t := p.in.next()
	switch {
	case t.hasDigits(4):
		p.zone.hour, p.zone.minute = t.n/100, t.n%100
	case t.hasDigits(2):
		p.zone.hour = t.n
		if !p.in.skip(':') || !p.in.peek.hasDigits(2) {
			return false
		}
		p.zone.minute = p.in.next().n
	default:
		return false
	}
	return p.zone.hour < 24 && p.zone.minute < 60
}

// dayParts gathers up to three numbers and perhaps the name of a month.
type dayParts struct {
	parts [3]int
	n     int
	month int // by name, from 1
	iso   bool
}

func (d *dayParts) add(n int) bool {
	if d.n == len(d.parts) {
		return false
	}
	d.parts[d.n] = n
	d.n++
	return true
}

// date decides which of the numbers is which. A missing one is 1.
func (d *dayParts) date() (year, month, day int, ok bool) {
	if d.n == 0 {
		return 0, 0, 0, false
	}
	for d.n < len(d.parts) {
		d.add(1)
	}
	a, b, c := d.parts[0], d.parts[1], d.parts[2]
	switch startsWithDay := a >= 1 && a <= 31; {
	case d.month > 0 && startsWithDay:
		year, month, day = b, d.month, a
	case d.month > 0:
		year, month, day = a, d.month, b
	case d.iso || !startsWithDay:
		year, month, day = a, b, c
	default:
		year, month, day = c, a, b
	}
	switch {
	case d.iso || year < 0 || year > 99:
	case year < 50:
		year += 2000
	default:
		year += 1900
	}
	return year, month, day, month >= 1 && month <= 12 && day >= 1 && day <= 31
}

// clockParts gathers hour, minute, second, millisecond.
type clockParts struct {
	parts   [4]int
	n       int
	half    int // hours that am or pm adds
	hasHalf bool
}

func (c *clockParts) add(n int) bool {
	if c.n == len(c.parts) {
		return false
	}
	c.parts[c.n] = n
	c.n++
	return true
}

// finish adds the last number that there is.
func (c *clockParts) finish(n int) {
	c.add(n)
	c.n = len(c.parts)
}

// expects reports whether n can follow the parts that are there.
func (c *clockParts) expects(n int) bool {
	return (c.n == 1 || c.n == 2) && n < 60 || c.n == 3 && n < 1000
}

func (c *clockParts) milliseconds() (int64, bool) {
	hour, minute, second, ms := c.parts[0], c.parts[1], c.parts[2], c.parts[3]
	if c.hasHalf {
		if hour > 12 {
			return 0, false
		}
		hour = hour%12 + c.half
	}
	inDay := hour < 24 && minute < 60 && second < 60 && ms < 1000
	endOfDay := hour == 24 && minute == 0 && second == 0 && ms == 0
	return ((int64(hour)*60+int64(minute))*60+int64(second))*1000 + int64(ms), inDay || endOfDay
}

// unset is a part of a zone that was not given.
const unset = -1

type zoneParts struct {
	sign         int // 0 means no zone
	hour, minute int
}

func newZone() zoneParts { return zoneParts{hour: unset, minute: unset} }

func (z *zoneParts) set(hours int) {
	z.sign, z.hour, z.minute = 1, hours, 0
	if hours < 0 {
		z.sign, z.hour = -1, -hours
	}
}

func (z *zoneParts) isUTC() bool { return z.hour == 0 && z.minute == 0 }

func (z *zoneParts) expectsMinute(n int) bool { return z.hour != unset && z.minute == unset && n < 60 }

// milliseconds is what local time is ahead of UTC.
func (z *zoneParts) milliseconds() (int64, bool) {
	if z.sign == 0 {
		return 0, true
	}
	// V8 wraps around as well.
	seconds := uint32(max(z.hour, 0))*3600 + uint32(max(z.minute, 0))*60
	return int64(z.sign) * int64(seconds) * 1000, seconds <= math.MaxInt32
}
