package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds everything that is counted, in a registry of its own. It is
// made before the server because the core and the runner count into it too.
type Metrics struct {
	reg      *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	events   *prometheus.CounterVec

	jobs        *prometheus.CounterVec
	jobLag      prometheus.Histogram
	jobSeconds  prometheus.Histogram
	jobsRunning prometheus.Gauge
	deferred    prometheus.Counter
	claimErrors prometheus.Counter
}

// NewMetrics returns metrics at zero, with Go's runtime, the process and the
// build described beside our own.
func NewMetrics() *Metrics {
	m := &Metrics{
		reg: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verge_http_request_seconds", Help: "Time from the header's end to the answer's, by route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "verge_http_in_flight", Help: "Requests being answered.",
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_events_total", Help: "What the core counts, by name.",
		}, []string{"event"}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_runner_jobs_total", Help: "Jobs run, by result: ok, or error where the store refused the record.",
		}, []string{"result"}),
		jobLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "verge_runner_lag_seconds", Help: "Time from a task falling due to its job beginning.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 120, 600},
		}),
		jobSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "verge_runner_job_seconds", Help: "Time a job ran.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}),
		jobsRunning: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "verge_runner_jobs_running", Help: "Jobs running.",
		}),
		deferred: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "verge_runner_jobs_deferred_total", Help: "Leases given back because the job's lane was full.",
		}),
		claimErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "verge_runner_claim_errors_total", Help: "Claims that the store refused.",
		}),
	}
	m.reg.MustRegister(m.requests, m.seconds, m.inFlight, m.events,
		m.jobs, m.jobLag, m.jobSeconds, m.jobsRunning, m.deferred, m.claimErrors,
		collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Count counts an event by name; it fits host.Host.Count. Names come from a
// fixed small set: each new one is a time series for ever.
func (m *Metrics) Count(event string) { m.events.WithLabelValues(event).Inc() }

// JobStarted, JobDone, JobDeferred and ClaimFailed are what a runner reports.
func (m *Metrics) JobStarted(lag time.Duration) {
	m.jobsRunning.Inc()
	m.jobLag.Observe(max(0, lag.Seconds()))
}

func (m *Metrics) JobDone(took time.Duration, err error) {
	m.jobsRunning.Dec()
	m.jobSeconds.Observe(took.Seconds())
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.jobs.WithLabelValues(result).Inc()
}

func (m *Metrics) JobDeferred() { m.deferred.Inc() }
func (m *Metrics) ClaimFailed() { m.claimErrors.Inc() }

func (m *Metrics) observe(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{})
}
