/* SPDX-License-Identifier: MIT */
/*
 * A program that changes its own probes, and looks at the process that does it.
 *
 *	controllers LIFE
 *
 * prints what it finds; controllers.sh says what is to be found.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <probe/self.h>

static atomic_long calls;
static atomic_int forked;

static void on_hit(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	calls++;
}

static void before_fork(void)
{
	forked++;
}

__attribute__((noinline)) static void hit(void)
{
	STAP_PROBE(controllers, hit);
	__asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop");
}

static void check(struct probe_error *error)
{
	if (!error)
		return;
	printf("error: %s\n", error->message);
	exit(1);
}

static void change(void)
{
	long before = calls;

	check(probe_self_register("controllers:hit", on_hit, NULL));
	hit();
	check(probe_self_unregister("controllers:hit", on_hit, NULL));
	hit();
	if (calls != before + 1)
		printf("%ld calls\n", calls - before);
}

/* Says how a change was made. */
static void say_how(void)
{
	forked = 0;
	change();
	printf("%s\n", forked ? "copied" : "executed");
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* ---- The controller, while it is at work --------------------------------------------------- */

static pid_t child_of(pid_t pid, pid_t tid)
{
	char path[64];
	int child = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%d", &child) != 1)
		child = 0;
	if (file)
		fclose(file);
	return child;
}

static bool is_executed(pid_t pid)
{
	char path[64], link[4096];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	length = readlink(path, link, sizeof(link) - 1);
	link[length > 0 ? length : 0] = '\0';
	return strstr(link, "/libprobe.so") != NULL;
}

/* A controller of a thread, and its parent. */
struct pair {
	pid_t forker, pid;
};

static struct pair look_for(pid_t changer)
{
	struct pair p = {.forker = child_of(getpid(), changer)};

	p.pid = p.forker ? child_of(p.forker, p.forker) : 0;
	return p;
}

/* Both: the forker would make the controller go on. */
static void stop_both(struct pair p)
{
	kill(p.forker, SIGSTOP);
	kill(p.pid, SIGSTOP);
}

static void release(struct pair p)
{
	kill(p.pid, SIGCONT);
	kill(p.forker, SIGCONT);
}

/* Waits for a controller of a thread, which has run so long, and stops it. */
static struct pair catch (pid_t changer, unsigned int later_us)
{
	for (;;) {
		struct pair p = look_for(changer);

		if (!p.pid || !is_executed(p.pid))
			continue;
		usleep(later_us);
		stop_both(p);
		if (kill(p.pid, 0) == 0)
			return p;
		release(p);
	}
}

/* What a process has open, besides standard files that lead nowhere, as text; is it anything? */
static bool list_descriptors(pid_t pid, char *text, size_t bytes)
{
	char path[300], link[300];
	struct dirent *entry;
	size_t used = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		length = readlink(path, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = '\0';
		if ((strncmp(link, "socket:", 7) == 0 || strncmp(link, "pipe:", 5) == 0 ||
			    strncmp(link, "/dev/", 5) == 0) &&
			used + 8 < bytes)
			used += (size_t)sprintf(text + used, "%.6s ", link);
	}
	if (dir)
		closedir(dir);
	return used > 0;
}

/* Prints what a controller has open when it has closed the others, or at its end. */
static void *look_at_one(void *data)
{
	struct pair p = catch (*(pid_t *)data, 0);
	char now[1024], last[1024] = "";

	while (list_descriptors(p.pid, now, sizeof(now))) {
		strcpy(last, now);
		release(p);
		if (strcmp(last, "socket ") == 0)
			break;
		usleep(200);
		stop_both(p);
	}
	release(p);
	printf("%s\n", last);
	return NULL;
}

/* It has no descriptor of the program's, even one that execve(2) leaves open; nor keep we one. */
static void inherit(void)
{
	pid_t changer = gettid();
	pthread_t looker;
	int ends[2], before;

	if (pipe(ends) < 0)
		exit(1);
	change();
	before = descriptors();
	pthread_create(&looker, NULL, look_at_one, &changer);
	change();
	pthread_join(looker, NULL);
	printf("%d more\n", descriptors() - before);
}

static atomic_int children;

static void on_child(int signal)
{
	(void)signal;
	children++;
}

static void print_wait(int flags)
{
	int result = waitpid(-1, NULL, WNOHANG | flags), err = errno;

	printf("%d %s\n", result, strerror(err));
}

/* Nothing is seen of it, nor is anything left of it. */
static void wait_for(void)
{
	signal(SIGCHLD, on_child);
	say_how();
	print_wait(0);
	print_wait(__WALL);
	printf("%d signals\n", children);
}

/* ---- The program ends, or becomes another one, in the middle ------------------------------- */

static void *change_always(void *data)
{
	*(atomic_int *)data = gettid();
	while (calls >= 0)
		change();
	return NULL;
}

/* Prints the ids of the controller and its parent, and goes on in the caller. */
static void catch_one(unsigned int later_us)
{
	static atomic_int changer;
	struct pair caught;
	pthread_t thread;

	pthread_create(&thread, NULL, change_always, &changer);
	while (!changer)
		usleep(100);
	caught = catch (changer, later_us);
	printf("%d %d\n", caught.pid, caught.forker);
	fflush(stdout);
	release(caught);
}

/* ---- In the middle of a change, in the caller's thread ------------------------------------- */

static void (*in_the_middle)(void);

/* Names no probe. The controller waits for the answer; no thread is stopped. */
static bool name_none(const char *path, const char *provider, const char *name, void *data)
{
	(void)path;
	(void)provider;
	(void)name;
	(void)data;
	if (in_the_middle)
		in_the_middle();
	in_the_middle = NULL;
	return false;
}

/* Prints how long that takes. */
static void change_with(void (*function)(void))
{
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	const struct probe_pattern *patterns[1];
	struct probe_request request = {.patterns = patterns, .pattern_count = 1};
	struct probe_error *error;
	time_t begin = time(NULL);

	check(probe_pattern_predicate("none", name_none, NULL, &pattern));
	patterns[0] = pattern;
	in_the_middle = function;
	error = probe_self_enable(&request, &report);
	printf("%s, %s\n",
		error && error->code == PROBE_ERROR_NOT_FOUND ? "none"
		: error					      ? error->message
							      : "some",
		time(NULL) - begin < 10 ? "soon" : "late");
	fflush(stdout);
	probe_error_free(error);
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
}

static void stop_forker(void)
{
	kill(look_for(gettid()).forker, SIGSTOP);
}

static void stop_controller(void)
{
	kill(look_for(gettid()).pid, SIGSTOP);
}

static void stop_these(void)
{
	stop_both(look_for(gettid()));
}

/* Stops one or the other at any instant of many changes. */
static void *stop_always(void *data)
{
	unsigned int i = 0;
	pid_t last = 0;

	for (;;) {
		struct pair p = look_for(*(pid_t *)data);

		if (!p.forker || p.forker == last)
			continue;
		usleep(i++ * 37 % 5000);
		p = look_for(*(pid_t *)data);
		last = p.forker;
		if (p.pid)
			kill(i % 2 ? p.forker : p.pid, SIGSTOP);
	}
	return NULL;
}

static void stop(int changes)
{
	static pid_t self;
	pthread_t stopper;

	change_with(stop_forker);
	change_with(stop_controller);
	self = gettid();
	pthread_create(&stopper, NULL, stop_always, &self);
	for (int i = 0; i < changes; i++)
		change();
	printf("all\n");
}

/* The program ends while a child that libc does not know of has all that was open. */
static void leave_child(void)
{
	struct pair p = look_for(gettid());
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0)
		close(STDOUT_FILENO);
	while (child == 0)
		pause();
	printf("%d %d %d\n", child, p.pid, p.forker);
	fflush(stdout);
	_exit(0);
}

/* Executes a set-user-ID program, as an ordinary user, who may not enter its folder. */
static int program;

static void execute(void)
{
	char *arguments[] = {(char[]){"id"}, (char[]){"-u"}, NULL};

	fexecve(program, arguments, (char *[]){NULL});
}

static void become_ordinary(void)
{
	if (setresuid(1234, 1234, 1234) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		exit(77);
}

/* ---- Where nothing can be executed ---------------------------------------------------------- */

/* A filter for two system calls. */
static void forbid(int call, int other, unsigned int action)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)call, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)other, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		exit(77);
}

/* An ordinary user with a capability, which a program that is executed does not get. */
static void keep_rights(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2];

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresuid(1234, 1234, 1234) < 0 ||
		syscall(SYS_capget, &head, sets) < 0)
		exit(77);
	for (int i = 0; i < 2; i++)
		sets[i].effective = sets[i].permitted;
	if (syscall(SYS_capset, &head, sets) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		exit(77);
}

/* Three changes of one call. */
static void change_several(void)
{
	static const char *const patterns[] = {"controllers:hit", "controllers:h*", "*rollers:hit"};
	struct probe_report report = {0};

	for (int i = 0; i < 3; i++)
		check(probe_self_register(patterns[i], on_hit, NULL));
	forked = 0;
	check(probe_self_update(&report));
	printf("%d copies\n", forked);
	probe_report_deinit(&report);
	hit();
	for (int i = 0; i < 3; i++)
		check(probe_self_unregister(patterns[i], on_hit, NULL));
	printf("%ld calls\n", calls);
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* What this process has taken from the processor, the kernel's work for it included. */
static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double least_ms(void)
{
	double least = 1e9;

	for (int i = 0; i < 10; i++) {
		double begin = now_ms(), took;

		change();
		took = now_ms() - begin;
		least = took < least ? took : least;
	}
	return least;
}

/* The page tables of 1 GiB are not copied: that alone takes several times a whole change. */
static void grow(void)
{
	size_t bytes = (size_t)1 << 30;
	double small = least_ms(), large;
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) < 0)
		exit(77);
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
	large = least_ms();
	printf("%s\n", large < 3 * small + 10 ? "the same" : "longer");
	fprintf(stderr, "%.1f ms, and with 1 GiB %.1f\n", small, large);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "how";

	pthread_atfork(before_fork, NULL, NULL);
	if (!strcmp(what, "inherit"))
		inherit();
	else if (!strcmp(what, "wait"))
		wait_for();
	else if (!strcmp(what, "grow"))
		grow();
	else if (!strcmp(what, "several"))
		change_several();
	else if (!strcmp(what, "stop"))
		stop(atoi(argv[2]));
	else if (!strcmp(what, "stop-both"))
		change_with(stop_these);
	else if (!strcmp(what, "stop-filtered")) {
		forbid(SYS_pidfd_open, SYS_execve, SECCOMP_RET_ERRNO | EPERM);
		change_with(stop_these);
	} else if (!strcmp(what, "leave"))
		change_with(leave_child);
	else if (!strcmp(what, "set-user-id")) {
		program = open(argv[2], O_PATH | O_CLOEXEC);
		become_ordinary();
		change_with(argc > 3 ? execute : NULL);
		execute();
	} else if (!strcmp(what, "exit"))
		catch_one((unsigned int)atoi(argv[2]));
	else if (!strcmp(what, "exec")) {
		catch_one((unsigned int)atoi(argv[2]));
		execl("/bin/sh", "sh", "-c", "sleep 1; echo executed", NULL);
	} else if (!strcmp(what, "filter")) {
		say_how();
		forbid(SYS_execve, SYS_execveat, SECCOMP_RET_KILL_PROCESS);
		say_how();
	} else if (!strcmp(what, "rights")) {
		say_how();
		keep_rights();
		say_how();
	} else {
		say_how();
	}
	fflush(stdout);
	_exit(0);
}
