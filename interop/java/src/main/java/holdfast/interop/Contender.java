package holdfast.interop;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RCountDownLatch;
import org.redisson.client.RedisTimeoutException;

/**
 * Takes a lock again and again, and tells the referee, which is on a port of this host, each time
 * that it has it and before it gives it back.
 */
final class Contender implements Closeable {
  private final Socket socket;
  private final BufferedReader in;
  private final PrintStream out;

  private Contender(int port, String kind, String name) throws IOException {
    socket = new Socket(InetAddress.getLoopbackAddress(), port);
    socket.setTcpNoDelay(true);
    in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    out = new PrintStream(socket.getOutputStream(), true, StandardCharsets.UTF_8);
    out.println("java " + kind + " " + name);
  }

  /** Says something to the referee, and returns whether to go on. */
  private boolean tell(String what) throws IOException {
    out.println(what);
    String answer = in.readLine();
    if (answer == null) {
      throw new IOException("the referee has left");
    }
    return answer.equals("go");
  }

  /**
   * Waits for something, and once more if it was forgotten that this thread is about to subscribe,
   * which Redisson 3.52.0 finds out after subscriptionTimeout. Nothing was taken then, and the thread
   * keeps its place in a fair line.
   */
  private <T> T patiently(Callable<T> wait) throws Exception {
    while (true) {
      try {
        return wait.call();
      } catch (RedisTimeoutException e) {
        if (!e.getMessage().startsWith("Unable to acquire subscription lock")) {
          throw e;
        }
        tell("forgotten");
      }
    }
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }

  static int contend(Peer peer, String kind, String name, int port) throws Exception {
    Peer.Held held = peer.held(kind, name);
    try (Contender referee = new Contender(port, kind, name)) {
      int holds = 0;
      for (boolean on = true; on; holds++) {
        on = referee.tell("enter " + referee.patiently(held::take));
        referee.tell("leave");
        held.giveBack();
      }
      return holds;
    }
  }

  /** Takes a lock again and again for so many ms, each time for so many us. Returns how often. */
  static int turns(Peer.Held held, long inside, long takes) throws Exception {
    int turns = 0;
    for (long end = System.nanoTime() + takes * 1_000_000; System.nanoTime() < end; turns++) {
      held.take();
      if (inside > 0) {
        LockSupport.parkNanos(inside * 1000);
      }
      held.giveBack();
    }
    return turns;
  }

  /** Waits for a latch, round after round, and counts it down before if it is told to. */
  static int rounds(RCountDownLatch latch, boolean counts, int count, String name, int port)
      throws Exception {
    try (Contender referee = new Contender(port, "latch", name)) {
      int rounds = 0;
      for (boolean on = true; on; rounds++) {
        referee.tell("set " + latch.trySetCount(count));
        if (counts) {
          referee.tell("down");
          latch.countDown();
        }
        boolean through = false;
        while (!through) { // without a limit, 3.52.0 waits for ever if the thread is forgotten
          through = latch.await(10, TimeUnit.SECONDS);
        }
        on = referee.tell("through");
      }
      return rounds;
    }
  }
}
