// SPDX-License-Identifier: Apache-2.0

// Package suite runs the specs of a package of Ginkgo, and tells at the end which of them
// have taken longest.
package suite

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// longest is how many specs are told.
const longest = 10

// Run is the one Go test of a suite.
func Run(t *testing.T, about string) {
	log.SetLogger(logr.Discard())
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.ReportAfterSuite("the longest specs", func(r ginkgo.Report) {
		dir := os.Getenv("SUITE_REPORTS")
		if dir == "" {
			return
		}
		f, err := os.Create(filepath.Join(dir, filepath.Base(r.SuitePath)+".longest"))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		defer f.Close()
		gomega.Expect(Longest(f, r)).To(gomega.Succeed())
	})
	ginkgo.RunSpecs(t, about)
}

// Longest writes the specs of a report that have taken longest.
func Longest(out io.Writer, r ginkgo.Report) error {
	specs := slices.DeleteFunc(slices.Clone(r.SpecReports), func(s types.SpecReport) bool { return s.LeafNodeType != types.NodeTypeIt })
	slices.SortFunc(specs, func(a, b types.SpecReport) int { return cmp.Compare(b.RunTime, a.RunTime) })
	for _, s := range specs[:min(len(specs), longest)] {
		if _, err := fmt.Fprintf(out, "%6s  %s\n", s.RunTime.Round(100*time.Millisecond), s.FullText()); err != nil {
			return err
		}
	}
	return nil
}
