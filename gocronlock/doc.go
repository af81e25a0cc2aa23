// Package gocronlock has the schedulers of github.com/go-co-op/gocron/v2 on several machines share
// their jobs, by the locks of holdfast: each run of a job takes place on one machine ([Locker]), or
// all jobs run on one machine, and on another one when that has died ([Elector]).
//
//	locker := gocronlock.NewLocker(client, "shop:jobs:")
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	...
//	_, err = scheduler.NewJob(gocron.CronJob("0 3 * * *", false),
//		gocron.NewTask(locker.Guard("nightly", nightly)), gocron.WithName("nightly"))
//
// # Which of the two
//
// A Locker spreads the jobs: whoever comes first runs it. It needs clocks that differ by less than
// the lock is kept ([holdfast.MinHold]), and jobs whose times are the same on all machines: a
// CronJob, DailyJob, WeeklyJob or MonthlyJob, or a DurationJob with a WithStartAt that all
// compute alike. An Elector needs neither, but has one machine do everything.
//
// # When the lock is lost
//
// gocron holds the lock of a job while the job runs, but has no way to tell the job that the lock
// was lost, since Redis was away for too long or somebody has forced it. So a job that must not
// go on then is wrapped by Guard: its context ends before another machine can have the lock, and
// the cause matches [holdfast.ErrLost].
//
// # Goroutines
//
// A Locker has none. An Elector has one, from [NewElector] to [Elector.Close], which campaigns.
package gocronlock
