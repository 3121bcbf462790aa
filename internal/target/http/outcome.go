package http

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// refused returns the outcome of a response other than 2xx.
func (d *delivery) refused(resp *http.Response) job.Outcome {
	status := resp.StatusCode
	out := job.Outcome{Kind: job.Failed, Status: status, Gone: status == http.StatusGone}
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500 && status <= 599:
		out.Retryable = true
		out.RetryAfter = retryAfter(resp.Header)
	}
	text := strconv.Itoa(status) + " " + cmp.Or(http.StatusText(status), "(not a known status)")
	switch {
	case status >= 300 && status <= 399:
		text += ": redirects are not followed; set the url to where it leads" + d.redirectHost(resp)
	case out.Gone:
		text += ": the target says that it is gone permanently; fix or delete the job, then resume it"
	}
	// It does not matter if the response breaks off: the status is known.
	if head, _ := d.head(resp); head != "" {
		text += ": " + head
	}
	out.Message = text
	return out
}

// redirectHost returns where a redirect leads: only scheme and host, because the rest may be secret.
func (d *delivery) redirectHost(resp *http.Response) string {
	to, err := d.base.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || to.Host == "" {
		return ""
	}
	return ", on " + d.show([]byte(to.Scheme+"://"+to.Host), false)
}

// retryAfter returns the delay a receiver asks for, in seconds or as a date. A date is compared with the
// response's own Date header, so the node's clock does not matter. Without that header it is ignored.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil { // out of range
			return job.MaxRetryAfter
		}
		return min(time.Duration(seconds)*time.Second, job.MaxRetryAfter)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(until.Sub(now), 0), job.MaxRetryAfter)
}
