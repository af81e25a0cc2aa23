import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.yaml.snakeyaml.Yaml;

/**
 * Runs cells with the real Redisson. Reads requests from standard input, a JSON object a line, and
 * answers each with the figures of the cell, a JSON object a line, after a first one that says that
 * it is connected. It ends when its input does.
 *
 * <p>Arguments: the server's address and the watchdog's lease in ms.
 */
public final class RedissonBench {
  private final Config config;
  private final List<RedissonClient> clients = new ArrayList<>(); // connected so far

  private RedissonBench(Config config) {
    this.config = config;
    client(0);
  }

  private RedissonClient client(int number) {
    while (clients.size() <= number) {
      clients.add(Redisson.create(config));
    }
    return clients.get(number);
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(args[1]));
    config.useSingleServer().setAddress("redis://" + args[0]);
    RedissonBench bench = new RedissonBench(config);
    out.println("{\"ready\": true}");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Yaml json = new Yaml(); // JSON is YAML, and Redisson brings a parser of that
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(bench.cell(new Request(json.load(line))));
    }
    Runtime.getRuntime().halt(0);
  }

  /** What a cell is: an order, see workload.go. Where there are several processes elsewhere, here are as many clients. */
  private record Request(String prefix, int threads, boolean shared, long windowNanos, long limitNanos, String kind,
      long holdNanos, int writeEvery, int clients, boolean alternate) {
    Request(Map<String, Object> o) {
      this((String) o.get("prefix"), number(o, "goroutines").intValue(), (Boolean) o.get("shared"),
          number(o, "window_ns").longValue(), number(o, "limit_ns").longValue(), (String) o.get("kind"),
          number(o, "hold_ns").longValue(), number(o, "write_every").intValue(), Math.max(1, number(o, "processes").intValue()),
          (Boolean) o.get("alternate"));
    }

    private static Number number(Map<String, Object> o, String name) {
      return (Number) o.get(name);
    }
  }

  private String cell(Request request) throws InterruptedException {
    client(request.clients - 1); // nobody waits for connections of a client later
    List<Worker> workers = new ArrayList<>();
    CountDownLatch start = new CountDownLatch(1);
    CountDownLatch ready = new CountDownLatch(request.threads);
    Room room = new Room();
    for (int i = 0; i < request.threads; i++) {
      if (i > 0 && !request.shared) {
        room = new Room();
      }
      workers.add(new Worker(i, locks(request, i), room, request, ready, start));
    }
    workers.forEach(Thread::start);
    ready.await();
    start.countDown(); // so that no pair has to compete with the start of threads
    join(workers, request);
    return summary(workers, room, request);
  }

  /** The lock that a thread uses, and for the writers of a read-write lock the other side of it. */
  private RLock[] locks(Request request, int thread) {
    RedissonClient redisson = client(thread % request.clients);
    String name = request.prefix + ":" + (request.shared ? 0 : thread);
    switch (request.kind) {
      case "fair":
        return new RLock[] {redisson.getFairLock(name)};
      case "read-write":
        RReadWriteLock lock = redisson.getReadWriteLock(name);
        return new RLock[] {lock.readLock(), lock.writeLock()};
      default:
        return new RLock[] {redisson.getLock(name)};
    }
  }

  /** Waits until the workers are done. Interrupts those that are not in time. */
  private static void join(List<Worker> workers, Request request) throws InterruptedException {
    long end = System.nanoTime() + request.windowNanos + request.limitNanos;
    for (Worker worker : workers) {
      TimeUnit.NANOSECONDS.timedJoin(worker, Math.max(1, end - System.nanoTime()));
    }
    workers.forEach(Thread::interrupt);
    end += request.limitNanos / 2;
    for (Worker worker : workers) {
      TimeUnit.NANOSECONDS.timedJoin(worker, Math.max(1, end - System.nanoTime()));
    }
  }

  /** The figures by the names that figures.go gives them. */
  private static String summary(List<Worker> workers, Room room, Request request) {
    long fewest = Long.MAX_VALUE;
    long most = 0;
    long unserved = 0;
    long pairs = 0;
    long overlaps = 0;
    long timeouts = 0;
    long errors = 0;
    int stuck = 0;
    String error = "";
    long[] ofClients = new long[request.clients];
    List<Times> took = new ArrayList<>();
    List<Times> waited = new ArrayList<>();
    List<Times> handOvers = new ArrayList<>();
    for (Worker w : workers) {
      if (w.isAlive()) {
        stuck++;
        continue;
      }
      pairs += w.pairs;
      ofClients[w.number % request.clients] += w.pairs;
      fewest = Math.min(fewest, w.pairs);
      most = Math.max(most, w.pairs);
      unserved = Math.max(unserved, w.unserved);
      overlaps += w.overlaps;
      timeouts += w.timeouts;
      errors += w.errors;
      error = error.isEmpty() ? w.error : error;
      took.add(w.took);
      waited.add(w.waited);
      handOvers.add(w.handOvers);
    }
    long[] all = Times.sorted(took);
    String text = String.format(
        "\"pairs\": %d, \"completed\": %d, \"p50_ns\": %d, \"p99_ns\": %d, \"max_ns\": %d, \"fewest\": %d, \"most\": %d, "
            + "\"overlaps\": %d, \"timeouts\": %d, \"errors\": %d, \"error\": %s, \"stood_still\": %b, \"stuck\": %d",
        pairs, all.length, percentile(all, 50), percentile(all, 99), percentile(all, 100),
        stuck == workers.size() ? 0 : fewest, most, overlaps, timeouts, errors, quoted(error), all.length == 0, stuck);
    if (!request.shared) {
      return '{' + text + '}';
    }
    long[] waits = Times.sorted(waited);
    text += String.format(", \"wait_p50_ns\": %d, \"wait_p99_ns\": %d, \"wait_max_ns\": %d",
        percentile(waits, 50), percentile(waits, 99), Math.max(unserved, percentile(waits, 100)));
    if (request.clients > 1) {
      text += String.format(", \"process_fewest\": %d, \"process_most\": %d, \"still_processes\": %d",
          Arrays.stream(ofClients).min().orElse(0), Arrays.stream(ofClients).max().orElse(0),
          Arrays.stream(ofClients).filter(n -> n == 0).count());
    }
    if (request.writeEvery == 0) {
      long[] changes = Times.sorted(handOvers);
      text += String.format(", \"hand_overs\": %d, \"hand_over_mean_ns\": %d, \"hand_over_p50_ns\": %d, "
              + "\"hand_over_p99_ns\": %d, \"longest_free_ns\": %d",
          changes.length, (long) Arrays.stream(changes).average().orElse(0), percentile(changes, 50),
          percentile(changes, 99), room.longestFree);
    }
    return '{' + text + '}';
  }

  private static long percentile(long[] sorted, int p) {
    if (sorted.length == 0) {
      return 0;
    }
    return sorted[Math.max((int) (((long) sorted.length * p + 99) / 100), 1) - 1];
  }

  private static String quoted(String text) {
    return '"' + text.replaceAll("[^ -~]", " ").replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  /** Times that were measured, in ns. */
  private static final class Times {
    private long[] all = new long[1024];
    private int count;

    void add(long nanos) {
      if (count == all.length) {
        all = Arrays.copyOf(all, 2 * count);
      }
      all[count++] = nanos;
    }

    static long[] sorted(List<Times> some) {
      return some.stream().flatMapToLong(t -> Arrays.stream(t.all, 0, t.count)).sorted().toArray();
    }
  }

  /** What a lock protects: see room.go. */
  private static final class Room {
    private static final long A_WRITER = 1L << 32;

    private final AtomicLong inside = new AtomicLong();
    private final AtomicLong waiting = new AtomicLong();
    private final AtomicLong last = new AtomicLong(); // who was inside last, above zero
    private volatile long leftAt;
    private volatile boolean wanted; // somebody waited then
    private volatile long longestFree;
  }

  /** One thread of a cell: a goroutine's counterpart. */
  private static final class Worker extends Thread {
    private final int number;
    private final long who; // between whom hand-overs count
    private final RLock[] locks;
    private final Room room;
    private final Request request;
    private final CountDownLatch ready;
    private final CountDownLatch start;

    private long pairs; // completed within the window
    private final Times took = new Times(); // by each completed pair
    private final Times waited = new Times(); // for being inside
    private final Times handOvers = new Times(); // to this one
    private long unserved;
    private long overlaps;
    private long timeouts;
    private long errors;
    private String error = "";
    private boolean waits;
    private long enteredAt;

    Worker(int number, RLock[] locks, Room room, Request request, CountDownLatch ready, CountDownLatch start) {
      this.number = number;
      this.who = 1 + (request.clients > 1 ? number % request.clients : number);
      this.locks = locks;
      this.room = room;
      this.request = request;
      this.ready = ready;
      this.start = start;
      setDaemon(true);
    }

    @Override
    public void run() {
      ready.countDown();
      try {
        start.await();
        work();
      } catch (InterruptedException e) {
        timeouts++;
      }
    }

    private void work() throws InterruptedException {
      long end = System.nanoTime() + request.windowNanos;
      int n = 1;
      for (long began = System.nanoTime(); began < end; began = System.nanoTime(), n++) {
        boolean writes = request.writeEvery == 0 || n % request.writeEvery == 0;
        RLock lock = locks[request.writeEvery > 0 && writes ? 1 : 0];
        try {
          waits = true;
          room.waiting.incrementAndGet();
          lock.lockInterruptibly();
          visit(writes);
          lock.unlock();
          note(began, end);
          letOthers(end);
        } catch (RuntimeException e) {
          errors++;
          error = error.isEmpty() ? e.toString() : error;
          Thread.sleep(1);
        } catch (InterruptedException e) {
          unserved = System.nanoTime() - began;
          throw e;
        } finally {
          waitsNoMore();
        }
      }
    }

    private void waitsNoMore() {
      if (waits) {
        waits = false;
        room.waiting.decrementAndGet();
      }
    }

    private void visit(boolean writes) throws InterruptedException {
      long mine = writes ? Room.A_WRITER : 1;
      long inside = room.inside.addAndGet(mine);
      if (writes ? inside != mine : inside >= Room.A_WRITER) {
        overlaps++;
      }
      enteredAt = System.nanoTime();
      if (request.shared) {
        waitsNoMore();
        if (request.writeEvery == 0 && room.last.get() != 0) {
          enter(enteredAt - room.leftAt);
        }
        stay();
        if (writes) {
          room.last.set(who);
          room.wanted = room.waiting.get() > 0;
          room.leftAt = System.nanoTime();
        }
      }
      room.inside.addAndGet(-mine);
    }

    /** Notes for how long the lock was free. */
    private void enter(long free) {
      if (room.wanted) {
        room.longestFree = Math.max(free, room.longestFree);
      }
      if (room.last.get() != who) {
        handOvers.add(free);
      }
    }

    private void stay() throws InterruptedException {
      if (request.holdNanos > 0) {
        TimeUnit.NANOSECONDS.sleep(request.holdNanos);
      } else {
        Thread.yield();
      }
    }

    /** Waits until somebody else has got in, if whoever has left shall do so. */
    private void letOthers(long end) throws InterruptedException {
      while (request.alternate && room.last.get() == who && room.inside.get() == 0 && System.nanoTime() < end) {
        TimeUnit.MICROSECONDS.sleep(100);
      }
    }

    private void note(long began, long end) {
      long now = System.nanoTime();
      took.add(now - began);
      waited.add(enteredAt - began);
      if (now < end) {
        pairs++;
      }
    }
  }
}
