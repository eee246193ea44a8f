// SPDX-License-Identifier: Apache-2.0

package sqldb

import "k8s.io/utils/lru"

// keptNumbers is how many numbers a process keeps, some 4 MiB: those of the policies and packages that most reports name.
const keptNumbers = 16 << 10

// newNumbers returns what keeps numbers of the dictionary, or nil where other processes write, too: such a database can be restored to
// an earlier state behind the back of this process.
func newNumbers(driver Driver) *lru.Cache {
	if driver != SQLite {
		return nil
	}
	return lru.New(keptNumbers)
}

// Number returns the number that the dictionary has for a key, if this transaction or an earlier one has noted it lately. A number in the
// dictionary never changes.
func (t *Tx) Number(key string) (int64, bool) {
	if number, ok := t.noted[key]; ok {
		return number, true
	}
	if t.db.numbers == nil {
		return 0, false
	}
	number, ok := t.db.numbers.Get(key)
	if !ok {
		return 0, false
	}
	return number.(int64), true //nolint:forcetypeassert // only keepNumbers adds
}

// NoteNumber notes what the dictionary has, or gets by this transaction. Later transactions know it once this one has committed.
func (t *Tx) NoteNumber(key string, number int64) {
	if t.db.numbers == nil {
		return
	}
	if t.noted == nil {
		t.noted = map[string]int64{}
	}
	t.noted[key] = number
}

// keepNumbers keeps what a transaction has noted that has committed.
func (t *Tx) keepNumbers() {
	for key, number := range t.noted {
		t.db.numbers.Add(key, number)
	}
}
