package holdfast.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Obeys commands, one a line: a number, a thread's name, a verb, and arguments, separated by blanks.
 * Each thread is one of its own, since a thread is what Redisson's locks belong to. Answers, in the
 * order in which they are ready: the number, then "ok" and a value, or "error" and a text.
 *
 * <p>It ends when its input does, and then leaves its locks as they are.
 */
public final class Peer {
  private final RedissonClient redisson;
  private final PrintStream out;
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

  private Peer(RedissonClient redisson, PrintStream out) {
    this.redisson = redisson;
    this.out = out;
  }

  public static void main(String[] args) throws Exception {
    Config config = new Config();
    long watchdog = Long.parseLong(args[1]);
    config.setLockWatchdogTimeout(watchdog);
    config.setFairLockWaitTimeout(Long.parseLong(args[2]));
    String[] addresses = args[3].split(",");
    switch (args[0]) {
      case "cluster" -> config.useClusterServers().addNodeAddress(addresses);
      case "sentinel" -> config.useSentinelServers().setMasterName(args[4])
          .setCheckSentinelsList(false).addSentinelAddress(addresses);
      default -> config.useSingleServer().setAddress(addresses[0]);
    }
    Peer peer = new Peer(Redisson.create(config), new PrintStream(System.out, true, StandardCharsets.UTF_8));
    peer.out.println("0 ok " + peer.redisson.getId());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      peer.obey(line.split(" "));
    }
    Runtime.getRuntime().halt(0);
  }

  private void obey(String[] words) {
    threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor()).execute(() -> {
      String answer;
      try {
        answer = "ok " + does(words);
      } catch (Throwable e) {
        answer = "error " + e.toString().replace('\n', ' ');
      }
      synchronized (out) {
        out.println(words[0] + " " + answer);
      }
    });
  }

  private RLock lock(String kind, String name) {
    return switch (kind) {
      case "mutex" -> redisson.getLock(name);
      case "spin" -> redisson.getSpinLock(name);
      case "fenced" -> redisson.getFencedLock(name);
      case "fair" -> redisson.getFairLock(name);
      case "read" -> redisson.getReadWriteLock(name).readLock();
      case "write" -> redisson.getReadWriteLock(name).writeLock();
      default -> throw new IllegalArgumentException(kind);
    };
  }

  /** Does what words from the third on say: a verb, a kind, a name, and numbers. */
  private Object does(String[] words) throws Exception {
    String kind = words[3];
    String name = words[4];
    if (kind.equals("permits")) {
      return permits(words, redisson.getPermitExpirableSemaphore(name));
    }
    long a = words.length > 5 ? Long.parseLong(words[5]) : 0;
    long b = words.length > 6 ? Long.parseLong(words[6]) : 0;
    if (kind.equals("semaphore")) {
      return semaphore(words[2], redisson.getSemaphore(name), (int) a, b);
    }
    if (kind.equals("latch")) {
      return latch(words[2], redisson.getCountDownLatch(name), a);
    }
    RLock lock = lock(kind, name);
    switch (words[2]) {
      case "lock": // lease in ms; 0: the watchdog's
        if (a > 0) {
          lock.lock(a, TimeUnit.MILLISECONDS);
        } else {
          lock.lock();
        }
        return "locked";
      case "trylock": // wait and lease in ms; a lease of 0: the watchdog's
        return lock.tryLock(a, b > 0 ? b : -1, TimeUnit.MILLISECONDS);
      case "token":
        return ((RFencedLock) lock).lockAndGetToken();
      case "unlock":
        lock.unlock();
        return "unlocked";
      case "force":
        return lock.forceUnlock();
      case "count":
        return lock.getHoldCount();
      case "held":
        return lock.isHeldByCurrentThread();
      case "locked":
        return lock.isLocked();
      case "ttl":
        return lock.remainTimeToLive();
      case "thread":
        return Thread.currentThread().getId();
      default:
        throw new IllegalArgumentException(words[2]);
    }
  }

  private Object semaphore(String verb, RSemaphore s, int a, long b) throws Exception {
    return switch (verb) {
      case "set" -> s.trySetPermits(a);
      case "acquire" -> {
        s.acquire(a);
        yield "acquired";
      }
      case "tryacquire" -> s.tryAcquire(a, b, TimeUnit.MILLISECONDS);
      case "release" -> {
        s.release(a);
        yield "released";
      }
      case "add" -> {
        s.addPermits(a);
        yield "added";
      }
      case "drain" -> s.drainPermits();
      case "available" -> s.availablePermits();
      default -> throw new IllegalArgumentException(verb);
    };
  }

  private Object permits(String[] words, RPermitExpirableSemaphore s) throws Exception {
    return switch (words[2]) {
      case "set" -> s.trySetPermits(Integer.parseInt(words[5]));
      case "acquire" -> s.acquire(Long.parseLong(words[5]), TimeUnit.MILLISECONDS);
      case "tryacquire" ->
          s.tryAcquire(Long.parseLong(words[5]), Long.parseLong(words[6]), TimeUnit.MILLISECONDS);
      case "release" -> {
        s.release(words[5]);
        yield "released";
      }
      case "tryrelease" -> s.tryRelease(words[5]);
      case "update" -> s.updateLeaseTime(words[5], Long.parseLong(words[6]), TimeUnit.MILLISECONDS);
      case "available" -> s.availablePermits();
      case "total" -> s.getPermits();
      case "acquired" -> s.acquiredPermits();
      default -> throw new IllegalArgumentException(words[2]);
    };
  }

  private Object latch(String verb, RCountDownLatch l, long a) throws Exception {
    return switch (verb) {
      case "set" -> l.trySetCount(a);
      case "down" -> {
        l.countDown();
        yield "down";
      }
      case "count" -> l.getCount();
      case "await" -> l.await(a, TimeUnit.MILLISECONDS);
      case "delete" -> l.delete();
      default -> throw new IllegalArgumentException(verb);
    };
  }
}
