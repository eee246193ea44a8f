// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	namedTest   = regexp.MustCompile("`(Test[A-Za-z0-9_]+|(?:e2e|cli|fault|scoped): [^`]+)(?:/[^`]*)?`")
	writtenTest = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
	// Specs are named with their package before the text.
	writtenSpec = regexp.MustCompile(`\b(?:It|Describe|DescribeTable)\("([^"]+)"`)
)

var _ = Describe("The documentation of security", Label("docs"), func() {
	It("names tests that exist, and says what holds each threat", func() {
		text, err := os.ReadFile(securityDoc)
		Expect(err).NotTo(HaveOccurred())
		there := testsOfTheRepository()
		named := namedTest.FindAllStringSubmatch(string(text), -1)
		Expect(len(named)).To(BeNumerically(">=", 20), "%s names only %d tests", securityDoc, len(named))
		for _, m := range named {
			Expect(there[m[1]]).To(BeTrue(), "%s names %s, and there is no such test", securityDoc, m[1])
		}
		// The tables of threats say for each what holds it, and which test shows it, or that
		// nothing does.
		_, threats, _ := strings.Cut(string(text), "## Threats")
		threats, _, _ = strings.Cut(threats, "### What a Scan may bring along")
		Expect(strings.Count(threats, "\n| it might")).To(BeNumerically(">=", 4), "%s has no tables of threats", securityDoc)
	})
})

func testsOfTheRepository() map[string]bool {
	GinkgoHelper()
	there := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range writtenSpec.FindAllStringSubmatch(string(b), -1) {
			there[filepath.Base(filepath.Dir(path))+": "+m[1]] = true
		}
		for _, m := range writtenTest.FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
		return err
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(len(there)).To(BeNumerically(">=", 100), "%d tests found (%v)", len(there), err)
	return there
}
