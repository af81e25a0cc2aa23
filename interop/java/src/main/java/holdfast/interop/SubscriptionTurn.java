package holdfast.interop;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.misc.AsyncSemaphore;

/**
 * What the threads of a client that subscribe to channels, and unsubscribe, take turns with in
 * Redisson: a semaphore with one permit.
 */
final class SubscriptionTurn {
  /** How long somebody who could have the permit is waited for. */
  private static final long PATIENCE_MS = 500;

  private SubscriptionTurn() {}

  /**
   * Whether one who asks while another one gives the permit back is left without it, though it is
   * free. Tries for so many ms.
   */
  static boolean forgets(long ms) throws Exception {
    AtomicInteger round = new AtomicInteger();
    AtomicInteger released = new AtomicInteger(); // the round in which it was last given back
    AsyncSemaphore turn = new AsyncSemaphore(1);
    Thread releasing = new Thread(() -> {
      for (int seen = 0; seen >= 0; ) {
        int now = round.get();
        if (now != seen) {
          seen = now;
          if (now > 0) {
            dawdle();
            turn.release();
            released.set(now);
          }
        }
      }
    }, "releasing");
    releasing.start();
    try {
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
      turn.acquire().get();
      for (int i = 1; System.nanoTime() < end; i++) {
        round.set(i); // the other thread gives it back
        dawdle();
        CompletableFuture<Void> mine = turn.acquire();
        while (released.get() != i) { // the other thread may have no processor for long
          if (!releasing.isAlive()) {
            throw new IllegalStateException("the releasing thread has ended");
          }
          Thread.onSpinWait();
        }
        long limit = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!mine.isDone()) {
          if (System.nanoTime() > limit) {
            return true;
          }
          Thread.onSpinWait();
        }
      }
      return false;
    } finally {
      round.set(-1);
      releasing.join();
    }
  }

  /** Passes some tens of nanoseconds, so that the two meet in all ways. */
  private static void dawdle() {
    for (int i = ThreadLocalRandom.current().nextInt(40); i > 0; i--) {
      Thread.onSpinWait();
    }
  }
}
