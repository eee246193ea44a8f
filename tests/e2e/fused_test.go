// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// fusedParser is the project's parser, which may run in the scanner's pod.
func fusedParser(namespace, resultType string) *executionv1.ParseDefinition {
	p := parser(namespace, resultType)
	p.Spec.ScanAccess, p.Spec.Phases = executionv1.ScanAccessHandover, executionv1.PhasesFused
	return p
}

var _ = Describe("A parser in the scanner's pod", Label("isolation"), func() {
	It("stores the same findings with one pod and one Job less", Label("smoke"), func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), fusedParser(ns, "nmap-xml"))
		got := done(ctx, shellScan(ns, "both", "printf '%s' '"+nmapXML("80", "443")+"' >"+resultPath))
		wantJobs(got, "scanner")
		pods := podsOf(ctx, ns)
		Expect(pods).To(HaveLen(1))
		Expect(pods[0].Spec.Containers).To(HaveLen(3))
		wantStats(got, findings(ctx, got))
		Expect(categories(findings(ctx, got))).To(HaveKeyWithValue("Open Port", int64(2)))
		Expect(resultsOf(ctx, got)).To(ConsistOf("findings.json", "result"))
	})

	// The scanner looks for everything that it must not find, twice: the parser may not have begun to wait the first time.
	It("is out of the reach of a hostile scanner", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), fusedParser(ns, "nmap-xml"))
		look := "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -aE '^(SCAN_OBJECT|SCANNER_HANDOFF|UPLOAD_URL_ENDPOINT)='; " +
			"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -aE '[f]indings.json|[-]-handoff'; " +
			"ls -d /run/scanyard /var/run/secrets/kubernetes.io /var/run/secrets/scanyard.io"
		script := "seen() { ( " + look + " ) 2>/dev/null || true; }; found=$(seen; sleep 1; seen); " +
			"printf '%s' '" + nmapXML("80") + "' >" + resultPath + "; test -z \"$found\" || { echo \"$found\" >&2; exit 9; }"
		got := done(ctx, shellScan(ns, "hostile", script))
		wantJobs(got, "scanner")
		Expect(categories(findings(ctx, got))).To(HaveKeyWithValue("Open Port", int64(1)))
	})

	// A link would hand the parser's presigned URLs to the findings, and a pipe would stop it for ever.
	DescribeTable("reads nothing but a file that the scanner has left", func(ctx SpecContext, script, why string) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml", once), fusedParser(ns, "nmap-xml"))
		got := errored(ctx, shellScan(ns, "trick", script), executionv1.ReasonScannerFailed, why)
		wantJobs(got, "scanner")
		Expect(resultsOf(ctx, got)).To(BeEmpty())
	},
		Entry("instead of a link to its environment", "ln -s /proc/self/environ "+resultPath, "look at "+resultPath),
		Entry("instead of a pipe", "mkfifo "+resultPath, "is not a regular file"),
		Entry("when there is none", "true", "wrote no "+resultPath),
	)

	It("gets a Job of its own when it fails, which fails the Scan as ever, and the scanner runs once", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), fusedParser(ns, "nmap-xml"))
		got := errored(ctx, shellScan(ns, "junk", "echo '<nmaprun><host>' >"+resultPath), executionv1.ReasonParserFailed,
			"exited with code 65: parse nmap-xml: ", "stopped before its end")
		wantJobs(got, "scanner", "parser")
		Expect(jobsOf(got)["scanner"].Status.Succeeded).To(BeEquivalentTo(1))
	})

	It("has a pod of its own for a re-run over the stored result", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), fusedParser(ns, "nmap-xml"))
		got := done(ctx, shellScan(ns, "twice", "printf '%s' '"+nmapXML("80")+"' >"+resultPath))
		got = again(ctx, got, "parser")
		Expect(w.ran.Of(got.UID)).To(BeComparableTo(map[string]int{"scanner": 1, "parser": 1}), "Jobs")
		got = again(ctx, got, "scanner")
		Expect(w.ran.Of(got.UID)).To(BeComparableTo(map[string]int{"scanner": 2, "parser": 1}), "Jobs")
		Expect(categories(findings(ctx, got))).To(HaveKeyWithValue("Open Port", int64(1)))
	})

	It("can be forbidden by a ScanType", func(ctx SpecContext) {
		ns := namespace(ctx)
		kind := shellType(ns, "test-txt")
		kind.Spec.Phases = executionv1.PhasesSeparate
		create(ctx, kind, fusedParser(ns, "test-txt"))
		got := done(ctx, shellScan(ns, "apart", quick))
		wantJobs(got, "scanner", "parser")
		Expect(jobsOf(got)["scanner"].Annotations).NotTo(HaveKey(executionv1.AnnotationPhases))
	})
})
