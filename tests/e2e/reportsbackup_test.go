// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// backUp has the release copy its database into the cluster's bucket.
func (r *reportsWorld) backUp(ctx context.Context) {
	GinkgoHelper()
	const keys = "bucket"
	_, err := r.kube.CoreV1().Secrets(reportsNamespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: keys}, StringData: map[string]string{"accesskey": r.store.AccessKey, "secretkey": r.store.SecretKey},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	host, port, err := net.SplitHostPort(r.store.Endpoint)
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.Atoi(port)
	Expect(err).NotTo(HaveOccurred())
	r.release.Values["backup"] = map[string]any{"schedule": "15 3 * * *", "s3": map[string]any{
		"enabled": true, "tls": map[string]any{"enabled": false}, "endpoint": host, "port": number, "bucket": r.store.Bucket, "region": r.store.Region, "keySecret": keys,
	}}
	r.install(ctx)
}

// copyNow runs the CronJob's pod now, as "kubectl create job --from" does, with a change to it. It returns what the pod has logged.
func (r *reportsWorld) copyNow(ctx context.Context, name string, change func(*corev1.PodSpec)) string {
	GinkgoHelper()
	planned, err := r.kube.BatchV1().CronJobs(reportsNamespace).Get(ctx, "reports-backup", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	job := &batchv1.Job{ObjectMeta: *planned.Spec.JobTemplate.ObjectMeta.DeepCopy(), Spec: *planned.Spec.JobTemplate.Spec.DeepCopy()}
	job.Name = name
	change(&job.Spec.Template.Spec)
	_, err = r.kube.BatchV1().Jobs(reportsNamespace).Create(ctx, job, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	var ended batchv1.JobConditionType
	eventually(ctx, "the end of Job "+name, func(ctx context.Context) (bool, error) {
		now, err := r.kube.BatchV1().Jobs(reportsNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range now.Status.Conditions {
			if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
				ended = c.Type
				return true, nil
			}
		}
		return false, nil
	})
	pods, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).NotTo(BeEmpty())
	said, err := r.kube.CoreV1().Pods(reportsNamespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(ended).To(Equal(batchv1.JobComplete), "Job %s: %s", name, said)
	return string(said)
}
