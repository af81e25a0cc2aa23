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
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RLock;
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
  private final RedissonClient redisson;

  private RedissonBench(RedissonClient redisson) {
    this.redisson = redisson;
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(args[1]));
    config.useSingleServer().setAddress("redis://" + args[0]);
    RedissonBench bench = new RedissonBench(Redisson.create(config));
    out.println("{\"ready\": true}");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Yaml json = new Yaml(); // JSON is YAML, and Redisson brings a parser of that
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(bench.cell(new Request(json.load(line))));
    }
    Runtime.getRuntime().halt(0);
  }

  /** What a cell is: see cell.go. */
  private record Request(String prefix, int threads, boolean shared, long windowNanos, long limitNanos) {
    Request(Map<String, Object> o) {
      this((String) o.get("prefix"), ((Number) o.get("threads")).intValue(), (Boolean) o.get("shared"),
          ((Number) o.get("window_ns")).longValue(), ((Number) o.get("limit_ns")).longValue());
    }
  }

  private String cell(Request request) throws InterruptedException {
    List<Worker> workers = new ArrayList<>();
    CountDownLatch start = new CountDownLatch(1);
    CountDownLatch ready = new CountDownLatch(request.threads);
    Room room = new Room();
    for (int i = 0; i < request.threads; i++) {
      if (i > 0 && !request.shared) {
        room = new Room();
      }
      RLock lock = redisson.getLock(request.prefix + ":" + (request.shared ? 0 : i));
      workers.add(new Worker(lock, room, request, ready, start));
    }
    workers.forEach(Thread::start);
    ready.await();
    start.countDown(); // so that no pair has to compete with the start of threads
    join(workers, request);
    return summary(workers);
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
  private static String summary(List<Worker> workers) {
    long pairs = 0;
    long completed = 0;
    long fewest = Long.MAX_VALUE;
    long most = 0;
    long overlaps = 0;
    long timeouts = 0;
    long errors = 0;
    int stuck = 0;
    String error = "";
    List<long[]> took = new ArrayList<>();
    for (Worker w : workers) {
      if (w.isAlive()) {
        stuck++;
        continue;
      }
      pairs += w.pairs;
      fewest = Math.min(fewest, w.pairs);
      most = Math.max(most, w.pairs);
      overlaps += w.overlaps;
      timeouts += w.timeouts;
      errors += w.errors;
      error = error.isEmpty() ? w.error : error;
      completed += w.completed;
      took.add(Arrays.copyOf(w.took, w.completed));
    }
    long[] all = took.stream().flatMapToLong(Arrays::stream).sorted().toArray();
    return String.format(
        "{\"pairs\": %d, \"completed\": %d, \"p50_ns\": %d, \"p99_ns\": %d, \"max_ns\": %d, \"fewest\": %d, \"most\": %d, "
            + "\"overlaps\": %d, \"timeouts\": %d, \"errors\": %d, \"error\": %s, \"stood_still\": %b, \"stuck\": %d}",
        pairs, completed, percentile(all, 50), percentile(all, 99), percentile(all, 100),
        stuck == workers.size() ? 0 : fewest, most, overlaps, timeouts, errors, quoted(error), completed == 0, stuck);
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

  /** What a lock protects. */
  private static final class Room {
    private final AtomicInteger inside = new AtomicInteger();
  }

  /** One thread of a cell: a goroutine's counterpart. */
  private static final class Worker extends Thread {
    private final RLock lock;
    private final Room room;
    private final Request request;
    private final CountDownLatch ready;
    private final CountDownLatch start;

    private long pairs; // completed within the window
    private int completed;
    private long[] took = new long[1024]; // by each completed pair, ns
    private long overlaps;
    private long timeouts;
    private long errors;
    private String error = "";

    Worker(RLock lock, Room room, Request request, CountDownLatch ready, CountDownLatch start) {
      this.lock = lock;
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
      for (long began = System.nanoTime(); began < end; began = System.nanoTime()) {
        try {
          lock.lockInterruptibly();
          visit();
          lock.unlock();
          note(began, end);
        } catch (RuntimeException e) {
          errors++;
          error = error.isEmpty() ? e.toString() : error;
          Thread.sleep(1);
        }
      }
    }

    private void visit() {
      if (room.inside.incrementAndGet() != 1) {
        overlaps++;
      }
      if (request.shared) {
        Thread.yield();
      }
      room.inside.decrementAndGet();
    }

    private void note(long began, long end) {
      long now = System.nanoTime();
      if (completed == took.length) {
        took = Arrays.copyOf(took, 2 * completed);
      }
      took[completed++] = now - began;
      if (now < end) {
        pairs++;
      }
    }
  }
}
