/* SPDX-License-Identifier: MIT */
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A Java program that passes many of the JVM's probes.
 *
 * <pre>
 * Busy work [ROUNDS]  computes with threads, monitors, exceptions, garbage and
 *                     collections, and prints the same lines every time
 * Busy gap            one thread spins on System.nanoTime() and keeps the largest
 *                     step, less what it waited for a CPU; the commands on standard input are `reset`, `print`
 *                     (answers "gap NS") and `quit`
 * Busy stay           does the work for ever, prints "ready", and answers `ping`
 *                     with "pong N"; ends with status 1 if a result was another
 * </pre>
 */
public final class Busy {
	private static volatile long largest;
	private static volatile boolean reset;
	private static volatile boolean stopping;
	private static volatile long rounds;

	private Busy() {
	}

	private static long fibonacci(int n) {
		return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
	}

	private static int thrown(int count) {
		int caught = 0;
		for (int i = 0; i < count; i++) {
			try {
				if (i % 2 == 0)
					throw new IllegalStateException("number " + i);
				Object[] none = new Object[1];
				none[i] = none;
			} catch (IllegalStateException | ArrayIndexOutOfBoundsException error) {
				caught++; /* compiled code throws some without a message */
			}
		}
		return caught;
	}

	private static long garbage(int count) {
		Map<String, List<Integer>> map = new HashMap<>();
		long sum = 0;
		for (int i = 0; i < count; i++)
			map.computeIfAbsent("key" + i % 100, key -> new ArrayList<>()).add(i);
		for (List<Integer> list : map.values())
			for (int value : list)
				sum += value;
		return sum;
	}

	private static long contend(int threads, int each) throws InterruptedException {
		long[] total = new long[1];
		Object lock = new Object();
		List<Thread> started = new ArrayList<>();
		for (int i = 0; i < threads; i++) {
			Thread thread = new Thread(() -> {
				for (int j = 0; j < each; j++) {
					synchronized (lock) {
						total[0]++;
						lock.notify();
					}
				}
			});
			thread.start();
			started.add(thread);
		}
		for (Thread thread : started)
			thread.join();
		return total[0];
	}

	private static String work(int round) throws Exception {
		String result = "round " + round + " fibonacci " + fibonacci(18) + " thrown "
			+ thrown(2000) + " sum " + garbage(50000) + " contended " + contend(4, 20000);
		System.gc();
		return result + " class " + Class.forName("java.util.zip.CRC32").getName();
	}

	/** How long this thread could have run but had no CPU: see gap.c. */
	private static long waited(RandomAccessFile schedstat, byte[] text) throws IOException {
		schedstat.seek(0);
		int length = schedstat.read(text);
		int at = 0;
		while (at < length && text[at] != ' ')
			at++;
		long value = 0;
		for (at++; at < length && text[at] != ' '; at++)
			value = 10 * value + text[at] - '0';
		return value;
	}

	private static void spin() {
		byte[] text = new byte[96];
		try (RandomAccessFile schedstat = new RandomAccessFile("/proc/thread-self/schedstat", "r")) {
			long waited = waited(schedstat, text);
			long last = System.nanoTime();
			while (!stopping) {
				long now = System.nanoTime();
				if (reset) {
					largest = 0;
					waited = waited(schedstat, text);
					reset = false;
					now = System.nanoTime();
				} else if (now - last > 20000 && now - last > largest) {
					long sum = waited(schedstat, text);
					largest = Math.max(largest, now - last - (sum - waited));
					waited = sum;
					now = System.nanoTime();
				}
				last = now;
			}
		} catch (IOException error) {
			System.out.println("failed " + error);
			System.exit(1);
		}
	}

	private static void stay() {
		try {
			String first = work(0);
			while (!stopping) {
				if (!work(0).equals(first))
					throw new IllegalStateException("another result");
				rounds++;
			}
		} catch (Exception error) {
			System.out.println("failed " + error);
			System.exit(1);
		}
	}

	private static void serve(Runnable body) throws Exception {
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
		Thread thread = new Thread(body);
		thread.setDaemon(true);
		thread.start();
		System.out.println("ready");
		String line = input.readLine();
		while (line != null && !line.equals("quit")) {
			if (line.equals("reset")) {
				reset = true;
				while (reset)
					Thread.onSpinWait();
				System.out.println("reset");
			} else if (line.equals("print")) {
				System.out.println("gap " + largest);
			} else {
				System.out.println("pong " + rounds);
			}
			line = input.readLine();
		}
		stopping = true;
	}

	public static void main(String[] args) throws Exception {
		String mode = args.length > 0 ? args[0] : "work";
		if (mode.equals("gap")) {
			serve(Busy::spin);
		} else if (mode.equals("stay")) {
			serve(Busy::stay);
		} else {
			int count = args.length > 1 ? Integer.parseInt(args[1]) : 3;
			for (int i = 0; i < count; i++)
				System.out.println(work(i));
		}
	}
}
