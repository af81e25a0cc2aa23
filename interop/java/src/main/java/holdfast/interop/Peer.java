package holdfast.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RObject;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * Obeys commands, one a line: a number, a thread's name, a verb, a kind, a lock's name, and more
 * arguments, separated by blanks. Each thread is one of its own, since a thread is what Redisson's
 * locks belong to. Answers, in the order in which they are ready: the number, then "ok" and a value,
 * or "error" and a text.
 *
 * <p>It ends when its input does, and then leaves its locks as they are.
 */
public final class Peer {
  private final List<RedissonClient> clients = new ArrayList<>();
  private final RedissonClient redisson;
  private final PrintStream out;
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
  private final Map<String, RLock> shared = new ConcurrentHashMap<>(); // objects of several threads

  private Peer(Map<String, String> settings, PrintStream out) {
    String[] addresses = settings.get("addresses").split(",");
    if (settings.get("mode").equals("independent")) {
      for (String address : addresses) {
        clients.add(Redisson.create(config(settings, address)));
      }
    } else {
      clients.add(Redisson.create(config(settings, addresses)));
    }
    redisson = clients.get(0);
    this.out = out;
  }

  private static Config config(Map<String, String> settings, String... addresses) {
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(settings.get("watchdog")));
    config.setFairLockWaitTimeout(Long.parseLong(settings.get("fairwait")));
    switch (settings.get("mode")) {
      case "cluster" -> config.useClusterServers().addNodeAddress(addresses);
      case "classic" -> config.useClusterServers().addNodeAddress(addresses)
          .setShardedSubscriptionMode(ShardedSubscriptionMode.OFF);
      case "sentinel" -> config.useSentinelServers().setMasterName(settings.get("master"))
          .setCheckSentinelsList(false).addSentinelAddress(addresses);
      default -> config.useSingleServer().setAddress(addresses[0]).setSubscriptionsPerConnection(5)
          .setSubscriptionConnectionPoolSize(Integer.parseInt(settings.get("channels")) / 5);
    }
    return config;
  }

  /** Takes settings, each as name=value. */
  public static void main(String[] args) throws Exception {
    Map<String, String> settings = new HashMap<>();
    for (String arg : args) {
      String[] pair = arg.split("=", 2);
      settings.put(pair[0], pair[1]);
    }
    Peer peer = new Peer(settings, new PrintStream(System.out, true, StandardCharsets.UTF_8));
    peer.out.println("0 ok " + peer.redisson.getId());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      peer.obey(line.split(" "));
    }
    Runtime.getRuntime().halt(0);
  }

  private void obey(String[] words) {
    threads.computeIfAbsent(words[1], Peer::thread).execute(() -> {
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

  private static ExecutorService thread(String name) {
    return Executors.newSingleThreadExecutor(task -> new Thread(task, name));
  }

  /** Whether a thread sleeps in one of Redisson's locks, rather than wait for an answer of Redis. */
  private static boolean sleeps(String thread) {
    return Thread.getAllStackTraces().entrySet().stream()
        .filter(e -> e.getKey().getName().equals(thread))
        .map(e -> Arrays.toString(e.getValue()))
        .anyMatch(stack -> stack.contains("LockSupport.park")
            && (stack.contains("java.util.concurrent.Semaphore") || stack.contains("ReclosableLatch")));
  }

  private RLock lock(String kind, String name) throws Exception {
    return switch (kind) {
      case "mutex" -> redisson.getLock(name);
      case "nonreentrant" -> since4("getNonReentrantLock", name);
      case "spin" -> redisson.getSpinLock(name);
      case "shared" -> shared.computeIfAbsent(name, redisson::getLock);
      case "sharedspin" -> shared.computeIfAbsent(name, redisson::getSpinLock);
      case "fenced" -> redisson.getFencedLock(name);
      case "fair" -> redisson.getFairLock(name);
      case "nonreentrantfair" -> since4("getNonReentrantFairLock", name);
      case "read" -> redisson.getReadWriteLock(name).readLock();
      case "write" -> redisson.getReadWriteLock(name).writeLock();
      case "multi" -> redisson.getMultiLock(mutexes(name));
      case "red" -> redisson.getRedLock(
          clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
      default -> throw new IllegalArgumentException(kind);
    };
  }

  private RLock since4(String method, String name) throws Exception {
    return (RLock) RedissonClient.class.getMethod(method, String.class).invoke(redisson, name);
  }

  /** The locks that a multi-lock's name lists, with plus signs between. */
  private RLock[] mutexes(String names) {
    String[] split = names.split("\\+");
    RLock[] locks = new RLock[split.length];
    for (int i = 0; i < split.length; i++) {
      locks[i] = redisson.getLock(split[i]);
    }
    return locks;
  }

  /** Does what words from the third on say: a verb, a kind, a name, and more. */
  private Object does(String[] words) throws Exception {
    String verb = words[2];
    String kind = words[3];
    String name = words[4];
    switch (verb) {
      case "contend":
        return Contender.contend(this, kind, name, Integer.parseInt(words[5]));
      case "turns":
        return Contender.turns(
            held(kind, name), Long.parseLong(words[5]), Long.parseLong(words[6]));
      case "rounds":
        return Contender.rounds(redisson.getCountDownLatch(name), words[5].equals("true"),
            Integer.parseInt(words[6]), name, Integer.parseInt(words[7]));
      case "interrupt": // another thread, whose name it is
        return threads.remove(name).shutdownNow().size();
      case "sleeps": // another thread, whose name it is
        return sleeps(name);
      case "forgets": // so many ms are enough to see it
        return SubscriptionTurn.forgets(Long.parseLong(words[5]));
      case "owner":
        return redisson.getId() + ":" + Thread.currentThread().getId();
      case "field": // of the hash of a lock: how often somebody holds it
        return redisson.<String, String>getMap(name, StringCodec.INSTANCE).get(words[5]);
      default:
    }
    if (kind.equals("permits")) {
      return permits(words, redisson.getPermitExpirableSemaphore(name));
    }
    long a = words.length > 5 ? Long.parseLong(words[5]) : 0;
    long b = words.length > 6 ? Long.parseLong(words[6]) : 0;
    return switch (kind) {
      case "semaphore" -> semaphore(verb, redisson.getSemaphore(name), (int) a, b);
      case "latch" -> latch(verb, redisson.getCountDownLatch(name), a);
      default -> locking(verb, lock(kind, name), a, b);
    };
  }

  private static Object locking(String verb, RLock lock, long a, long b) throws Exception {
    return switch (verb) {
      case "lock" -> { // lease in ms; 0: the watchdog's
        if (a > 0) {
          lock.lock(a, TimeUnit.MILLISECONDS);
        } else {
          lock.lock();
        }
        yield "locked";
      }
      // wait and lease in ms; a lease of 0: the watchdog's; a wait of 0: one try
      case "trylock" -> a == 0 && b == 0
          ? lock.tryLock() : lock.tryLock(a, b > 0 ? b : -1, TimeUnit.MILLISECONDS);
      case "lockseconds" -> { // lease in s
        lock.lock(a, TimeUnit.SECONDS);
        yield "locked";
      }
      case "token" -> ((RFencedLock) lock).lockAndGetToken();
      case "leasedtoken" -> ((RFencedLock) lock).lockAndGetToken(a, TimeUnit.MILLISECONDS);
      case "trytoken" -> ((RFencedLock) lock).tryLockAndGetToken();
      case "unlock" -> {
        lock.unlock();
        yield "unlocked";
      }
      case "force" -> lock.forceUnlock();
      case "count" -> lock.getHoldCount();
      case "held" -> lock.isHeldByCurrentThread();
      case "locked" -> lock.isLocked();
      case "lockedasync" -> lock.isLockedAsync().toCompletableFuture().get();
      case "ttl" -> lock.remainTimeToLive();
      case "delete" -> ((RObject) lock).delete();
      default -> throw new IllegalArgumentException(verb);
    };
  }

  private static Object semaphore(String verb, RSemaphore s, int a, long b) throws Exception {
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

  private static Object permits(String[] words, RPermitExpirableSemaphore s) throws Exception {
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
      case "lease" -> s.getLeaseTime(words[5]);
      case "update" -> s.updateLeaseTime(words[5], Long.parseLong(words[6]), TimeUnit.MILLISECONDS);
      case "available" -> s.availablePermits();
      case "total" -> s.getPermits();
      case "acquired" -> s.acquiredPermits();
      default -> throw new IllegalArgumentException(words[2]);
    };
  }

  private static Object latch(String verb, RCountDownLatch l, long a) throws Exception {
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

  /** What a contender takes and gives back, whatever its kind. */
  interface Held {
    /** Returns the fencing token, or 0. */
    long take() throws Exception;

    void giveBack() throws Exception;
  }

  Held held(String kind, String name) throws Exception {
    switch (kind) {
      case "semaphore":
        RSemaphore semaphore = redisson.getSemaphore(name);
        return new Held() {
          @Override
          public long take() throws Exception {
            semaphore.acquire();
            return 0;
          }

          @Override
          public void giveBack() {
            semaphore.release();
          }
        };
      case "permits":
        RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(name);
        return new Held() {
          private String id;

          @Override
          public long take() throws Exception {
            id = permits.acquire(1, TimeUnit.MINUTES);
            return 0;
          }

          @Override
          public void giveBack() {
            permits.release(id);
          }
        };
      default:
        RLock lock = lock(kind, name);
        return new Held() {
          @Override
          public long take() {
            if (lock instanceof RFencedLock fenced) {
              return fenced.lockAndGetToken();
            }
            lock.lock();
            return 0;
          }

          @Override
          public void giveBack() {
            lock.unlock();
          }
        };
    }
  }
}
